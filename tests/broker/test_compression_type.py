"""``compression.type`` of a topic: batches are stored in its codec, whatever they came in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from admin_wire import SET, change, create, fresh
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually

from tallymark.broker import server
from tallymark.broker.partitions import partition as partition_module
from tallymark.errors import CODES, KafkaError
from tallymark.log import LogManager
from tallymark.log.validation.preparation import prepare
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.compression import CODECS
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("ours")) as running:
        yield running


def request_of(topic: str, batch: bytes | bytearray, acks: int = -1) -> m.ProduceRequest:
    part = m.ProduceRequestPartition(index=0, records=batch)
    named = m.ProduceRequestTopic(name=topic, partition_data=[part])
    return m.ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[named])


def produce(wire: WireClient, topic: str, batch: bytes | bytearray) -> Any:
    return wire.ask(request_of(topic, batch), 11).responses[0].partition_responses[0]


def stored(wire: WireClient, topic: str, offset: int = 0) -> list[Batch]:
    part = m.FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=50_000_000)
    asked = m.FetchRequestTopic(topic=topic, partitions=[part])
    request = m.FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=50_000_000, topics=[asked])
    return split_batches(wire.ask(request, 12).responses[0].partitions[0].records or b"")


def batch_of(codec: str, size: int, sequence: int = -1) -> bytes:
    rows = [(b"key", b"%06d" % n + b"v" * size, (), 1_000_000 + n) for n in range(10)]
    if sequence < 0:
        return encode_batch(rows, compression=codec)
    return encode_batch(
        rows, compression=codec, producer_id=7, producer_epoch=0, base_sequence=sequence
    )


@pytest.mark.parametrize("size", [10, 50_000], ids=["small", "large"])
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_what_comes_is_stored_in_the_topics_codec(wire: WireClient, wanted: str, size: int) -> None:
    """A topic made with ``compression.type=zstd``, to save disk whatever its many producers do,
    was refused with INVALID_CONFIG."""
    topic = fresh()
    assert create(wire, topic, configs={"compression.type": wanted}).error_code == 0
    sent = [batch_of(codec, size) for codec in CODECS]
    eventually(lambda: produce(wire, topic, sent[0]).base_offset == 0)
    answers = [produce(wire, topic, batch) for batch in sent[1:]]
    assert [(each.error_code, each.base_offset) for each in answers] == [
        (0, 10 * n) for n in range(1, len(CODECS))
    ]
    batches = [each for n in range(len(sent)) for each in stored(wire, topic, 10 * n)[:1]]
    assert {batch.header.codec for batch in batches} == {wanted.replace("uncompressed", "none")}
    (first,) = split_batches(sent[0])
    rows = [(r.timestamp, r.key, r.value) for r in first.records()]
    for number, batch in enumerate(batches):
        batch.check_crc()
        found = batch.records()
        assert [r.offset for r in found] == [10 * number + n for n in range(10)]
        assert [(r.timestamp, r.key, r.value) for r in found] == rows


def test_the_codec_is_changed_at_run_time(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    eventually(lambda: produce(wire, topic, batch_of("gzip", 10)).error_code == 0)
    assert change(wire, topic, ("compression.type", SET, "lz4")).error_code == 0

    def newest() -> str:
        at = produce(wire, topic, batch_of("gzip", 10)).base_offset
        return stored(wire, topic, at)[0].header.codec

    eventually(lambda: newest() == "lz4")
    assert stored(wire, topic)[0].header.codec == "gzip", "what is there stays as it is"


def test_batches_sent_at_once_keep_their_order(ours: BrokerThread) -> None:
    """Large batches are compressed in threads, small ones at once: an idempotent producer with
    five requests under way must not find one overtaken by the next (OUT_OF_ORDER_SEQUENCE)."""
    topic = fresh()
    with WireClient(ours.bootstrap_servers) as wire:
        create(wire, topic, configs={"compression.type": "gzip"})
        for number in range(40):
            size = 100_000 if number % 3 == 0 else 5
            wire.send(request_of(topic, batch_of("none", size, sequence=10 * number)), 11)
        answers = [wire_answer(wire) for _ in range(40)]
        again = produce(wire, topic, batch_of("none", 100_000, sequence=10 * 36))
    assert [(a.error_code, a.base_offset) for a in answers] == [(0, 10 * n) for n in range(40)]
    assert (again.error_code, again.base_offset) == (0, 360), "a repetition is known as one"


def wire_answer(wire: WireClient) -> Any:
    from tallymark.protocol import frames

    _, response = frames.decode_response(wire.frame(), m.ProduceRequest, 11)
    return response.responses[0].partition_responses[0]


def test_who_is_gone_before_the_answer_is_appended_all_the_same(ours: BrokerThread) -> None:
    """With acks=0, or a connection that ends at once, the batch was accepted: it is on its way."""
    topic = fresh()
    with WireClient(ours.bootstrap_servers) as wire:
        create(wire, topic, configs={"compression.type": "gzip"})
        wire.send(request_of(topic, batch_of("none", 100_000), acks=0), 11)
        with WireClient(ours.bootstrap_servers) as other:
            other.send(request_of(topic, batch_of("none", 100_000), acks=1), 11)
            # It is there: the answer of the next request on this connection comes behind it.
            other.send(m.MetadataRequest(topics=[]), 12)
            other.frame()
        eventually(lambda: sum(b.header.record_count for b in stored(wire, topic)) >= 10)
        eventually(lambda: produce(wire, topic, batch_of("none", 5)).base_offset == 20)


def test_large_batches_are_made_ready_beside_the_event_loop(
    ours: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of ten thousand records took the loop for tens of milliseconds, in which nobody
    else was answered."""
    seen: list[tuple[int, str]] = []

    def noted(data: Any, *rest: Any, **more: Any) -> Any:
        seen.append((len(data), threading.current_thread().name))
        return prepare(data, *rest, **more)

    monkeypatch.setattr(partition_module, "prepare", noted)
    topic = fresh()
    with WireClient(ours.bootstrap_servers) as wire:
        create(wire, topic, configs={"compression.type": "zstd", "cleanup.policy": "compact"})
        assert produce(wire, topic, batch_of("none", 50_000)).error_code == 0
        assert produce(wire, topic, batch_of("gzip", 50)).error_code == 0
    assert len(seen) == 2
    assert all(thread.startswith("tallymark-prepare") for _, thread in seen)


def test_logs_are_closed_when_nothing_is_appended_any_more(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker was stopped while it compressed a large batch: the batch was appended while the logs
    were flushed and marked as cleanly closed, so the next start did not verify it."""
    begun, opened = threading.Event(), threading.Event()
    at_close: list[bool] = []
    close = LogManager.close

    def slow(*args: Any, **more: Any) -> Any:
        begun.set()
        assert opened.wait(30)
        return prepare(*args, **more)

    def noted(manager: LogManager) -> None:
        at_close.append(opened.is_set())
        close(manager)

    monkeypatch.setattr(server, "STOP_SECONDS", 0.05)
    monkeypatch.setattr(partition_module, "prepare", slow)
    monkeypatch.setattr(LogManager, "close", noted)
    topic = fresh()
    with (
        BrokerThread(tmp_path) as running,
        WireClient(running.bootstrap_servers) as wire,
    ):
        create(wire, topic, configs={"compression.type": "gzip"})
        wire.send(request_of(topic, batch_of("none", 50_000)), 11)
        assert begun.wait(30)
        threading.Timer(0.5, opened.set).start()
        running.stop()
    assert at_close == [True]


def test_a_partition_that_goes_before_the_answer_is_in_the_answer(
    ours: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch was compressed while its partition went: asking when readers see it raises, and the
    request of the producer must have its answer all the same."""

    def gone(partition: partition_module.Partition, *_: object) -> None:
        raise KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], f"{partition} is gone")

    topic = fresh()
    with WireClient(ours.bootstrap_servers) as wire:
        late = {"compression.type": "gzip", "flush.before.expose": "true"}
        create(wire, topic, configs=late)
        monkeypatch.setattr(partition_module.Partition, "when_exposed", gone)
        answer = produce(wire, topic, batch_of("none", 50_000))
    assert answer.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]


def test_the_brokers_codec_holds_for_topics_without_one(tmp_path: Any) -> None:
    with (
        BrokerThread(tmp_path, compression_type="lz4") as running,
        WireClient(running.bootstrap_servers) as wire,
    ):
        topic, own = fresh(), fresh()
        create(wire, topic)
        create(wire, own, configs={"compression.type": "producer"})
        for name in (topic, own):
            produce(wire, name, batch_of("gzip", 10))
        assert stored(wire, topic)[0].header.codec == "lz4"
        assert stored(wire, own)[0].header.codec == "gzip"
