from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, ClosedError, ConnectError, KafkaError, LogTruncatedError
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.compiled import loose_columns
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker

NOT_LEADER = CODES["NOT_LEADER_OR_FOLLOWER"]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as running:
        fill(running, "t", 0, 10)
        yield running


def fill(broker: ScriptedBroker, topic: str, partition: int, count: int, batch: int = 2) -> None:
    """Append ``count`` records in batches; the n-th has value b"n" and timestamp 1000 + n."""
    log = broker.log(topic, partition)
    for start in range(log.end, log.end + count, batch):
        records = [(None, b"%d" % n, (), 1000 + n) for n in range(start, start + batch)]
        (one,) = split_batches(encode_batch(records))
        log.append(one)


def consumer(broker: ScriptedBroker, **settings: Any) -> SimpleConsumer:
    options: dict[str, Any] = {"request_timeout_ms": 2000}
    return SimpleConsumer(bootstrap_servers=broker.address, **(options | settings))


def numbers(fetched: Fetched) -> list[int]:
    return [int(record.value or b"") for record in fetched.records()]


@pytest.mark.parametrize("highest", [4, 9, 12, 13, 16])
def test_reading_on_from_any_offset_in_every_version(highest: int) -> None:
    served = dict(ADVERTISED) | {ApiKey.FETCH: (4, highest)}
    with ScriptedBroker({"t": 1}, served=served) as broker:
        fill(broker, "t", 0, 10)
        with consumer(broker) as c:
            found = c.fetch("t", 0, 3)
            assert numbers(found) == [3, 4, 5, 6, 7, 8, 9]  # its batch begins at 2
            assert (found.offset, found.next_offset, found.high_watermark) == (3, 10, 10)
            assert found.last_epoch == 0
            again = c.fetch("t", 0, found.next_offset, max_wait_ms=10, last_epoch=0)
            assert numbers(again) == []
            assert (again.next_offset, again.last_epoch) == (10, 0)
        assert broker.requests[-1][1] == highest


def test_a_fetch_waits_for_news(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        timer = threading.Timer(0.05, fill, (broker, "t", 0, 2))
        timer.start()
        assert numbers(c.fetch("t", 0, 10, max_wait_ms=3000)) == [10, 11]
        timer.join()


def test_max_bytes_gives_whole_batches_and_at_least_one(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        assert numbers(c.fetch("t", 0, 0, max_bytes=1)) == [0, 1]


def test_several_partitions_with_one_request_and_errors_apart(broker: ScriptedBroker) -> None:
    fill(broker, "t", 1, 4)
    with consumer(broker) as c:
        asked = [
            FetchSpec("t", 1, 2),
            FetchSpec("t", 0, 99),
            FetchSpec("t", 5, 0),
            FetchSpec("nowhere", 0, 0),
            FetchSpec("t", 0, 8),
        ]
        found = c.multifetch(asked)
        assert c.multifetch([]) == []
    assert broker.count(ApiKey.FETCH) == 1
    kinds = [f.name if isinstance(f, KafkaError) else numbers(f) for f in found]
    assert kinds[0] == [2, 3]
    assert kinds[2:4] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2


def test_out_of_range_is_raised(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        with pytest.raises(KafkaError, match="t-0 at offset 11: OFFSET_OUT_OF_RANGE"):
            c.fetch("t", 0, 11)
        with pytest.raises(KafkaError, match="nowhere-0: UNKNOWN_TOPIC"):
            c.fetch("nowhere", 0, 0)


def test_offsets_by_time_and_the_ends(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        assert c.end_offsets("t") == {0: 10, 1: 0}
        assert c.start_offsets("t") == {0: 0, 1: 0}
        assert c.get_offsets_before("t", 0) == [10]
        assert c.get_offsets_before("t", 0, LATEST, 5) == [10, 0]
        assert c.get_offsets_before("t", 0, EARLIEST, 5) == [0]
        assert c.get_offsets_before("t", 0, 1004, 2) == [4, 0]
        assert c.get_offsets_before("t", 0, 9999) == [10]
        assert c.offset_for_time("t", 0, 1007) == 7
        assert c.offset_for_time("t", 0, 9999) is None
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            c.end_offsets("nowhere")
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            c.offset_for_time("t", 7, 0)


def test_topics_are_asked_for_each_time(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        assert list(c.topics()) == ["t"]
        assert c.topics()["t"].partitions == (0, 1)
        assert c.topics()["t"].topic_id == broker.topic_ids["t"]
        broker.create("u", 1)
        assert list(c.topics()) == ["t", "u"]
        assert c.topics()["u"].partition_count == 1


def test_reading_makes_no_topics(broker: ScriptedBroker) -> None:
    with consumer(broker) as c, pytest.raises(KafkaError):
        c.fetch("misspelt", 0, 0)
    assert "misspelt" not in broker.topic_ids


def test_a_flipped_bit_is_found(broker: ScriptedBroker) -> None:
    batch = broker.log("t").batches[1]
    batch.data[-1] ^= 1
    with consumer(broker) as c:
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE") as caught:
            c.fetch("t", 0, 2)
        assert "batch at offset 2 has CRC" in str(caught.value)
    with consumer(broker, check_crcs=False) as c:
        assert c.fetch("t", 0, 2).next_offset == 10


def test_compiled_loops_are_used_where_the_application_wants_them(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take 140 MB: a consumer that reads little should not have them."""
    asked: list[bool] = []
    monkeypatch.setattr(loose_columns, "use_compiled_loops", lambda: asked.append(True))
    with consumer(broker):
        assert not asked
    with consumer(broker, compiled_reads=True):
        assert asked == [True]
    settings: Any = {"group": "g", "client_factory": lambda servers: consumer(broker)}
    ConsumerConnector(bootstrap_servers=broker.address, **settings).close()
    assert asked == [True]
    ConsumerConnector(bootstrap_servers=broker.address, compiled_reads=True, **settings).close()
    assert asked == [True, True]


# --- brokers that come and go -------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [Refuse(NOT_LEADER), HangUp(), Refuse(74), Refuse(75)])
def test_passing_trouble_is_waited_out(broker: ScriptedBroker, trouble: Any) -> None:
    broker.script(ApiKey.FETCH, trouble)
    with consumer(broker) as c:
        assert len(numbers(c.fetch("t", 0, 0))) == 10


def test_a_broker_that_comes_back_is_found(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.fetch("t", 0, 0)
        broker.stop()
        timer = threading.Timer(0.2, broker.start)
        timer.start()
        assert c.fetch("t", 0, 4).next_offset == 10
        timer.join()


def test_a_broker_that_stays_away_is_a_typed_error_in_time(broker: ScriptedBroker) -> None:
    with consumer(broker, request_timeout_ms=400) as c:
        c.fetch("t", 0, 0)
        broker.stop()
        started = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            c.fetch("t", 0, 0)
        assert time.monotonic() - started < 3
        assert caught.value.retriable
        assert f"{broker.address}: connect failed: refused" in str(caught.value)
        broker.start()


def test_an_address_where_nobody_is_fails_at_once(broker: ScriptedBroker) -> None:
    broker.stop()
    with consumer(broker) as c, pytest.raises(ConnectError, match="connect failed: refused"):
        c.fetch("t", 0, 0)
    broker.start()


def test_one_that_does_not_answer_is_a_typed_error(broker: ScriptedBroker) -> None:
    with consumer(broker, request_timeout_ms=800) as c:
        c.topics()
        broker.script(ApiKey.FETCH, *[Late(5.0)] * 10)
        with pytest.raises(KafkaError, match="no response to Fetch within"):
            c.fetch("t", 0, 0, max_wait_ms=0)


# --- logs that were cut (KIP-320) ---------------------------------------------------------------


def test_a_log_that_was_cut_below_the_position_is_noticed_though_it_has_grown_again(
    broker: ScriptedBroker,
) -> None:
    """Read up to 10; the broker dies and comes back with 6 records; others are appended until
    there are more than 10 again. By offsets alone nothing would look wrong."""
    with consumer(broker) as c:
        found = c.fetch("t", 0, 0)
        assert (found.next_offset, found.last_epoch) == (10, 0)
        broker.stop()
        broker.log("t").cut(6)
        broker.start()
        fill(broker, "t", 0, 10)
        with pytest.raises(LogTruncatedError) as caught:
            c.fetch("t", 0, 10, last_epoch=0)
        assert (caught.value.position, caught.value.diverging_offset) == (10, 6)
        again = c.fetch("t", 0, 6, last_epoch=0)
        assert numbers(again)[0] == 6
        assert again.last_epoch == 1


def test_a_restart_without_a_loss_goes_on(broker: ScriptedBroker) -> None:
    with consumer(broker) as c:
        c.fetch("t", 0, 0)
        broker.stop()
        broker.log("t").cut(10)  # nothing is lost, but the epoch is a new one
        broker.start()
        fill(broker, "t", 0, 2)
        found = c.fetch("t", 0, 10, last_epoch=0)
        assert numbers(found) == [10, 11]
        assert found.last_epoch == 1
        epochs = broker.count(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        c.fetch("t", 0, 12, last_epoch=1, max_wait_ms=1)
        c.fetch("t", 0, 12, last_epoch=1, max_wait_ms=1)
        assert broker.count(ApiKey.OFFSET_FOR_LEADER_EPOCH) == epochs  # the position is trusted


def test_a_stored_position_is_checked_at_first(broker: ScriptedBroker) -> None:
    broker.log("t").cut(6)
    fill(broker, "t", 0, 10)
    with consumer(broker) as c:
        (outcome, other) = c.multifetch([FetchSpec("t", 0, 9, 0), FetchSpec("t", 1, 0, -1)])
    assert isinstance(outcome, LogTruncatedError)
    assert outcome.diverging_offset == 6
    assert isinstance(other, Fetched)


def test_a_broker_that_knows_no_epochs_is_believed() -> None:
    served = {key: range_ for key, range_ in ADVERTISED.items() if key != 23}
    with ScriptedBroker({"t": 1}, served=served) as broker:
        fill(broker, "t", 0, 4)
        with consumer(broker) as c:
            assert numbers(c.fetch("t", 0, 2, last_epoch=0)) == [2, 3]


# --- life ---------------------------------------------------------------------------------------


def test_it_serves_threads(broker: ScriptedBroker) -> None:
    found: list[list[int]] = []
    with consumer(broker) as c:
        threads = [
            threading.Thread(target=lambda: found.append(numbers(c.fetch("t", 0, 0))))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [list(range(10))] * 8


def test_closed_is_closed(broker: ScriptedBroker) -> None:
    threads = threading.active_count()
    c = consumer(broker)
    c.topics()
    c.close()
    c.close()
    with pytest.raises(ClosedError):
        c.fetch("t", 0, 0)
    assert threading.active_count() == threads


def test_close_ends_a_waiting_fetch(broker: ScriptedBroker) -> None:
    c = consumer(broker)
    c.topics()
    timer = threading.Timer(0.1, c.close)
    timer.start()
    with pytest.raises((ClosedError, KafkaError)):
        c.fetch("t", 0, 10, max_wait_ms=20_000)
    timer.join()


def test_our_producers_records_are_read_back(broker: ScriptedBroker) -> None:
    with Producer(bootstrap_servers=broker.address, audit=False, compression_type="zstd") as p:
        for number in range(100):
            p.send("new", b"%d" % number)
    with consumer(broker) as c:
        assert numbers(c.fetch("new", 0, 0)) == list(range(100))


def test_a_topic_is_looked_up_by_name_with_the_error_that_a_list_of_all_hides(
    broker: ScriptedBroker,
) -> None:
    """A list of all topics leaves out what was deleted and what the asker may not see alike: who
    has to tell them apart asks by name."""
    with consumer(broker) as reading:
        found = reading.topics_named(["t", "none"])
        assert found["t"] == reading.topics()["t"]
        missing = found["none"]
        assert isinstance(missing, KafkaError)
        assert missing.code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
        assert set(reading.topics()) == {"t"}
