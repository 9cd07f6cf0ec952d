"""``tallymark perf`` and ``replay`` against a broker in this process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run_command
from hypothesis import given
from hypothesis import strategies as st

from tallymark.cli.messages import perf, replay
from tallymark.cli.messages.perf_figures import Figures, percentile
from tallymark.cli.messages.reading.merging import Merge
from tallymark.cli.messages.reading.reader import Piece
from tallymark.cli.messages.reading.spans import Span
from tallymark.client import Producer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CODES, UserError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.records.batch import Record
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedBroker]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with ScriptedBroker({"t": 2, "copy": 2}) as running:
        yield running


def fill(broker: ScriptedBroker, count: int, step_ms: int = 100) -> None:
    with Producer(
        bootstrap_servers=broker.address, audit=False, stamp=True, server="old"
    ) as producer:
        for number in range(count):
            producer.send(
                "t",
                b"%d" % number,
                key=b"k",
                partition=number % 2,
                timestamp=10_000 + number * step_ms,
                headers=[("h", b"1")],
            )


def test_figures() -> None:
    figures = Figures(records=1000, size=1000 * 1024, seconds=2.0)
    figures.latencies_ms.extend(float(number) for number in range(1, 1001))
    document = figures.document()
    assert document["records_per_second"] == 500.0
    assert document["mb_per_second"] == pytest.approx(0.488, abs=0.001)
    assert document["latency_ms"] == {
        "avg": 500.5, "max": 1000.0, "p50": 500.0, "p95": 950.0, "p99": 990.0, "p99.9": 999.0,
    }  # fmt: skip
    assert figures.text("sent").startswith("1000 records sent, 500.0 records/sec (0.49 MB/sec), ")
    assert Figures().text("read") == "0 records read, 0.0 records/sec (0.00 MB/sec)"


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_not_exceeded_by_its_share(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)
    assert sum(value <= found for value in ordered) >= share * len(ordered)
    assert found in ordered


def test_produce_and_consume_are_measured(broker: ScriptedBroker) -> None:
    where = ("--bootstrap-server", broker.address, "--json")
    words = ("t", "--num-records", "500", "--record-size", "50", "--compression", "gzip")
    sent = json.loads(run_command(perf.command, "produce", *words, *where).stdout)
    assert (sent["records"], sent["bytes"]) == (500, 25_000)
    assert 0 < sent["latency_ms"]["p50"] <= sent["latency_ms"]["p99.9"] <= sent["latency_ms"]["max"]
    read = json.loads(run_command(perf.command, "consume", "t", *where).stdout)
    assert (read["records"], read["bytes"]) == (500, 25_000)
    assert "latency_ms" not in read
    few = run_command(perf.command, "consume", "t", "--messages", "7", *where)
    assert json.loads(few.stdout)["records"] == 7


def test_payloads_of_a_file_and_failures(broker: ScriptedBroker) -> None:
    Path("lines").write_text("one\ntwo\n")
    where = ("--bootstrap-server", broker.address, "--payload-file", "lines", "--num-records", "3")
    run_command(perf.command, "produce", "copy", "--rate", "1000", "--no-stamp", *where)
    values = [*broker.values("copy", 0), *broker.values("copy", 1)]
    assert sorted(values) == [b"one", b"one", b"two"]  # type: ignore[type-var] # none is None
    broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
    with pytest.raises(UserError, match="3 of 3 messages were not delivered"):
        run_command(perf.command, "produce", "copy", *where)
    Path("lines").write_text("")
    with pytest.raises(UserError, match="lines has no lines"):
        run_command(perf.command, "produce", "copy", *where)


def replayed(broker: ScriptedBroker, *words: str) -> None:
    run_command(replay.command, "t", *words, "--bootstrap-server", broker.address)


def test_a_replay_sends_new_messages_in_the_order_of_their_times(broker: ScriptedBroker) -> None:
    fill(broker, 40)
    broker.create("one", 1)
    before = time.time_ns() // 1_000_000
    replayed(broker, "one", "--speed", "0", "--offset", "5")
    records = broker.log("one").records()
    assert [record.value for record in records] == [b"%d" % number for number in range(10, 40)]
    assert all(record.timestamp >= before for record in records)
    stamps = [stamp_of(record.headers) for record in records]
    assert all(isinstance(stamp, Stamp) and stamp.server != "old" for stamp in stamps)
    assert [stamp.sequence for stamp in stamps if isinstance(stamp, Stamp)] == list(range(30))
    assert all(record.headers[0] == ("h", b"1") for record in records)


def test_times_and_partitions_can_be_kept(broker: ScriptedBroker) -> None:
    fill(broker, 10)
    replayed(broker, "copy", "--speed", "0", "--keep-timestamps", "--keep-partitions")
    for partition in (0, 1):
        old, new = broker.log("t", partition).records(), broker.log("copy", partition).records()
        assert [r[:4] for r in new] == [r[:4] for r in old]


def test_kept_partitions_need_a_topic_that_has_them(broker: ScriptedBroker) -> None:
    """Into a new topic, which had one partition then, the first message of another partition was
    'not taken: UNKNOWN_TOPIC_OR_PARTITION', those before it were sent."""
    fill(broker, 10)
    replayed(broker, "fresh", "--speed", "0", "--keep-partitions")
    assert [len(broker.log("fresh", number).records()) for number in (0, 1)] == [5, 5]
    broker.create("narrow", 1)
    with pytest.raises(UserError, match="narrow has 1 partition, t 2; leave out --keep-part"):
        replayed(broker, "narrow", "--speed", "0", "--keep-partitions")
    assert broker.values("narrow") == []


def test_the_original_pace_and_a_multiple_of_it(broker: ScriptedBroker) -> None:
    fill(broker, 10, step_ms=100)
    begun = time.monotonic()
    replayed(broker, "copy", "--speed", "3")
    assert time.monotonic() - begun >= 0.9 / 3


def test_a_topic_is_not_sent_to_itself(broker: ScriptedBroker) -> None:
    with pytest.raises(UserError, match="t would be sent to itself"):
        replayed(broker, "t")


def test_into_another_cluster(broker: ScriptedBroker) -> None:
    fill(broker, 4)
    with ScriptedBroker({"t": 1}) as other:
        replayed(broker, "t", "--speed", "0", "--to-bootstrap-server", other.address)
        assert other.values("t") == [b"0", b"1", b"2", b"3"]


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), min_size=1, max_size=4), st.data())
def test_a_merge_is_in_order_where_the_logs_are(logs: list[list[int]], data: st.DataObject) -> None:
    """Whatever pieces come in whatever order: each partition's records keep their order, and when
    its times grow no record is given out before one that is older."""
    logs = [sorted(log) for log in logs]
    spans = [Span("t", number, 0, len(log)) for number, log in enumerate(logs)]
    merge, found = Merge(spans), list[tuple[int, int]]()
    while open_spans := [span for span in spans if not span.done]:
        span = data.draw(st.sampled_from(open_spans))
        end = data.draw(st.integers(span.position + 1, len(logs[span.partition])))
        times = logs[span.partition][span.position : end]
        records = [
            Record(span.position + index, at, None, None, ()) for index, at in enumerate(times)
        ]
        span.position = end
        merge.add(Piece(span, records))
        found += [(placed.record.timestamp, placed.span.partition) for placed in merge.ready()]
    found += [(placed.record.timestamp, placed.span.partition) for placed in merge.drain()]
    assert found == sorted((at, number) for number, log in enumerate(logs) for at in log)


def test_a_merge_reads_on_what_it_lacks() -> None:
    spans = [Span("t", 0, 5, None), Span("t", 1, 0, None)]
    merge = Merge(spans, limit=2)
    merge.add(Piece(spans[0], [Record(n, n, None, None, ()) for n in range(3)]))
    assert merge.thirsty() == [spans[1]]
    assert list(merge.ready()) == []
    assert [placed.record.offset for placed in merge.drain()] == [0, 1, 2]


def test_ctrl_c_flushes(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a replay has read is delivered and counted when it is told to stop."""
    fill(broker, 10, step_ms=1000)
    stop = threading.Event()
    send = replay._send

    def send_and_stop(*arguments: Any) -> None:
        send(*arguments)
        if arguments[-1].sent == 3:
            stop.set()

    class Signals:
        def __enter__(self) -> threading.Event:
            return stop

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(replay, "_send", send_and_stop)
    monkeypatch.setattr(replay, "stop_signals", Signals)
    words = ("t", "copy", "--speed", "10", "--json", "--bootstrap-server", broker.address)
    told = json.loads(run_command(replay.command, *words).stdout)
    assert told["acknowledged"] == 3
    assert len(broker.values("copy", 0) + broker.values("copy", 1)) == told["acknowledged"]
