"""The producer against a broker that does what it is told to."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from scripted_producer import quick_producer

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.producer import Producer
from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, stamp_of
from tallymark.errors import (
    CODES,
    ClosedError,
    KafkaError,
    LocalProtocolError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import ProduceRequest
from tallymark.protocol.records.batch import split_batches
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker, Serve

NOT_LEADER = CODES["NOT_LEADER_OR_FOLLOWER"]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


def one_record_batches(broker: ScriptedBroker, **settings: Any) -> Producer:
    """Every record is a batch of its own, so that order and retries show."""
    return quick_producer(broker, **({"batch_size": 1} | settings))


def numbers(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_what_is_sent_arrives_and_the_delivery_says_where(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        before = time.time_ns() // 1_000_000
        deliveries = [p.send("t", value, key=b"k", headers=[("h", b"1")]) for value in numbers(50)]
        found = [delivery.result(30) for delivery in deliveries]
    assert broker.values("t") == numbers(50)
    assert [(m.topic, m.partition, m.offset) for m in found] == [("t", 0, i) for i in range(50)]
    records = broker.log("t").records()
    assert [m.timestamp for m in found] == [record.timestamp for record in records]
    assert all(before <= m.timestamp <= before + 5000 for m in found)
    for sequence, record in enumerate(records):
        assert record.key == b"k"
        assert record.headers[0] == ("h", b"1")
        assert stamp_of(record.headers) == Stamp(p.instance, 0, sequence, "srv")


def test_given_timestamps_are_kept(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        assert p.send("t", b"x", timestamp=1234).result(30).timestamp == 1234
        with pytest.raises(ValueError, match="-1 is not milliseconds"):
            p.send("t", b"x", timestamp=-1)
    assert broker.log("t").records()[0].timestamp == 1234


def test_internal_topics_and_mirrors_are_not_stamped(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        p.send("_internal", b"x").result(30)
    assert broker.log("_internal").records()[0].headers == ()
    original = ((STAMP_HEADER, b"as it was"), ("h", None))
    with quick_producer(broker, stamp=False) as p:
        p.send("t", b"x", headers=original).result(30)
    assert broker.log("t").records()[0].headers == original


def test_a_record_read_elsewhere_and_sent_on_gets_a_stamp_of_its_own(
    broker: ScriptedBroker,
) -> None:
    with quick_producer(broker) as p:
        p.send("t", b"x", headers=[(STAMP_HEADER, b"somebody else's"), ("h", b"1")]).result(30)
    headers = broker.log("t").records()[0].headers
    assert [name for name, _ in headers] == ["h", STAMP_HEADER]
    assert stamp_of(headers) == Stamp(p.instance, 0, 0, "srv")


def test_nulls_are_kept(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        p.send("t").result(30)
        p.send("t", b"", key=b"").result(30)
    assert [(r.key, r.value) for r in broker.log("t").records()] == [(None, None), (b"", b"")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(broker: ScriptedBroker, codec: str) -> None:
    values = [b"the same thing again and again " * 10] * 30
    with quick_producer(broker, compression_type=codec) as p:
        for value in values:
            p.send("t", value)
    assert broker.values("t") == values
    assert {batch.header.codec for batch in broker.log("t").batches} == {codec}


def test_encoders_see_the_topic(broker: ScriptedBroker) -> None:
    with quick_producer(
        broker,
        value_encoder=lambda topic, value: f"{topic}:{value}".encode(),
        key_encoder=lambda topic, key: str(key).encode(),
    ) as p:
        p.send("t", {"a": 1}, key=7).result(30)
    (record,) = broker.log("t").records()
    assert (record.key, record.value) == (b"7", b"t:{'a': 1}")


def test_what_is_no_bytes_is_refused_with_a_hint(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p, pytest.raises(TypeError, match="value_encoder"):
        p.send("t", "text")


# --- partitions ---------------------------------------------------------------------------------


def test_partitions_are_chosen_by_key_by_number_or_by_the_users_rule() -> None:
    with ScriptedBroker({"t": 8}) as broker:
        with quick_producer(broker) as p:
            for number in range(40):
                p.send("t", b"v", key=b"key %d" % number)
            assert p.send("t", b"x", partition=5).result(30).partition == 5
            with pytest.raises(KafkaError, match="has 8 partitions"):
                p.send("t", b"x", partition=8)
        with quick_producer(broker, partitioner=lambda topic, key, numbers: numbers[-1]) as p:
            assert p.send("t", b"x", key=b"k").result(30).partition == 7
        keys = [{r.key for r in broker.log("t", n).records() if r.key} for n in range(8)]
        assert sum(len(one) for one in keys) == 41  # no key in two partitions
        assert sum(bool(one) for one in keys) > 4


def test_records_without_key_are_spread(broker: ScriptedBroker) -> None:
    broker.create("wide", 4)
    with quick_producer(broker, batch_size=500) as p:
        for _ in range(400):
            p.send("wide", bytes(50))
    assert all(broker.values("wide", number) for number in range(4))


def test_new_partitions_are_found(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        p.send("t", b"x").result(30)
        broker.create("t", 3)
        assert p.send("t", b"x", partition=2).result(30).partition == 2


# --- idempotence, order, retries ----------------------------------------------------------------


def sequences_sent(broker: ScriptedBroker) -> list[tuple[int, int]]:
    """(producer id, base sequence) of every batch that came, in order of arrival."""
    found: list[tuple[int, int]] = []
    for api, _, request in broker.requests:
        if api is ApiKey.PRODUCE:
            assert isinstance(request, ProduceRequest)
            for topic in request.topic_data:
                for part in topic.partition_data:
                    header = split_batches(part.records or b"")[0].header
                    found.append((header.producer_id, header.base_sequence))
    return found


def test_batches_are_numbered_for_idempotence(broker: ScriptedBroker) -> None:
    with one_record_batches(broker) as p:
        for value in numbers(20):
            p.send("t", value)
    assert broker.values("t") == numbers(20)
    assert sequences_sent(broker) == [(1001, number) for number in range(20)]
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([Serve(), Refuse(NOT_LEADER)], id="refused"),
        pytest.param([Serve(), HangUp()], id="hung up"),
        pytest.param([Serve(), HangUp(after_append=True)], id="hung up after appending"),
        pytest.param([Serve(), Refuse(7, after_append=True)], id="timed out after appending"),
        pytest.param([Serve(), Serve(), Late(0.05), Refuse(NOT_LEADER)], id="late, then refused"),
        pytest.param([Refuse(NOT_LEADER)] * 4, id="refused often"),
    ],
)
def test_failures_neither_reorder_nor_repeat_nor_lose(
    broker: ScriptedBroker, trouble: list[Any]
) -> None:
    broker.script(ApiKey.PRODUCE, *trouble)
    with one_record_batches(broker) as p:
        deliveries = [p.send("t", value) for value in numbers(30)]
        offsets = [delivery.result(30).offset for delivery in deliveries]
    assert broker.values("t") == numbers(30)
    assert offsets == list(range(30))
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1


def test_without_idempotence_order_is_kept_too(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, Serve(), Refuse(NOT_LEADER), Serve(), Refuse(NOT_LEADER))
    with one_record_batches(broker, acks=1) as p:
        for value in numbers(20):
            p.send("t", value)
    assert broker.values("t") == numbers(20)
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 0
    assert sequences_sent(broker)[0] == (-1, -1)


def test_a_log_that_was_cut_is_written_on_under_a_new_producer_id(broker: ScriptedBroker) -> None:
    """The broker died and came back without its last records, acknowledged ones among them: it
    refuses what follows them, OUT_OF_ORDER_SEQUENCE_NUMBER. The producer takes a new id and goes
    on; it is the audit's business to find what is missing."""
    broker.create("other", 1)
    with one_record_batches(broker) as p:
        for value in numbers(10):
            p.send("t", value).result(30)
        p.send("other", b"o").result(30)
        broker.stop()
        broker.log("t").cut(7)
        broker.start()
        deliveries = [p.send("t", b"after %d" % number) for number in range(10)]
        p.send("other", b"o").result(30)
        assert [delivery.result(30).offset for delivery in deliveries] == list(range(7, 17))
    expected = numbers(7) + [b"after %d" % number for number in range(10)]
    assert broker.values("t") == expected
    assert sequences_sent(broker)[-1][0] in (1001, 1002)
    ids = {header.producer_id for header in (b.header for b in broker.log("other").batches)}
    assert ids == {1001}, "a partition that has lost nothing keeps its identity"
    assert [stamp_of(r.headers).sequence for r in broker.log("t").records()[-3:]] == [17, 18, 19]  # type: ignore[union-attr] # all are stamped


def test_a_refusal_for_good_fails_the_batch_and_only_it(broker: ScriptedBroker) -> None:
    broker.script(ApiKey.PRODUCE, Serve(), Refuse(CODES["MESSAGE_TOO_LARGE"]))
    with one_record_batches(broker) as p:
        p.send("t", b"0").result(30)
        deliveries = [p.send("t", value) for value in numbers(6)]
        with pytest.raises(KafkaError, match=r"t-0: MESSAGE_TOO_LARGE.*max\.message\.bytes"):
            deliveries[0].result(30)
        for delivery in deliveries[1:]:
            delivery.result(30)
    assert broker.values("t") == [b"0", *numbers(6)[1:]]


def test_a_broker_that_forgets_an_answer_is_asked_again(broker: ScriptedBroker) -> None:
    with one_record_batches(broker, request_timeout_ms=600) as p:
        p.send("t", b"0").result(30)
        broker.script(ApiKey.PRODUCE, Late(3))
        assert p.send("t", b"1").result(30).offset == 1
    assert broker.values("t") == [b"0", b"1"]


def test_a_broker_that_comes_back_is_found(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        p.send("t", b"0").result(30)
        broker.stop()
        delivery = p.send("t", b"1")
        time.sleep(0.1)
        assert not delivery.done()
        broker.start()
        assert delivery.result(30).offset == 1


def test_no_producer_id_is_an_error_with_a_name(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        broker.script(ApiKey.INIT_PRODUCER_ID, Refuse(CODES["CLUSTER_AUTHORIZATION_FAILED"]))
        with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            p.send("t", b"0").result(30)
        assert p.send("t", b"1").result(30).offset == 0  # asked again


def test_brokers_that_are_too_old_are_named() -> None:
    served = dict(ADVERTISED) | {ApiKey.PRODUCE: (0, 2)}
    with (
        ScriptedBroker({"t": 1}, served=served) as broker,
        quick_producer(broker) as p,
        pytest.raises(KafkaError, match=r"older than Kafka 0\.11"),
    ):
        p.send("t", b"x").result(30)


# --- deadlines ----------------------------------------------------------------------------------


def test_what_was_never_sent_fails_after_the_delivery_timeout(broker: ScriptedBroker) -> None:
    with quick_producer(broker, delivery_timeout_ms=1_500) as p:
        p.send("t", b"0").result(30)
        broker.stop()
        late = r"1 record for t-0 not delivered in 1\.5 s.*refused"
        with pytest.raises(TimedOutError, match=late):
            p.send("t", b"1").result(30)
        broker.start()


def test_a_dead_bootstrap_is_named_by_send(broker: ScriptedBroker) -> None:
    broker.stop()
    refused = f"{broker.address}: connect failed: refused"
    with (
        quick_producer(broker, max_block_ms=1_000) as p,
        pytest.raises(TimedOutError, match=refused),
    ):
        p.send("t", b"1")
    broker.start()


def test_an_unknown_topic_that_nobody_makes_is_named() -> None:
    """When the broker was slow with its last answer, all that the error said was that none had
    come, though the ones before had told the reason."""
    with (
        ScriptedBroker({"t": 1}, auto_create=0) as broker,
        quick_producer(broker, max_block_ms=1000) as p,
    ):
        p.send("t", b"0").result(20)
        broker.script(ApiKey.METADATA, Serve(), Late(3))
        with pytest.raises(TimedOutError, match=r"topic nowhere is not known.*UNKNOWN_TOPIC"):
            p.send("nowhere", b"x")


def test_an_impossible_topic_is_refused_at_once(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        broker.script(ApiKey.METADATA, Refuse(CODES["INVALID_TOPIC_EXCEPTION"]))
        with pytest.raises(KafkaError, match="topic a b: INVALID_TOPIC"):
            p.send("a b", b"x")


def test_a_full_buffer_holds_senders_back(broker: ScriptedBroker) -> None:
    with quick_producer(broker, batch_size=1000, buffer_memory=3000, max_block_ms=1_000) as p:
        p.send("t", b"0").result(20)
        broker.script(ApiKey.PRODUCE, Late(3))

        def too_much() -> None:
            for _ in range(50):
                p.send("t", bytes(700))

        with pytest.raises(TimedOutError, match="buffer_memory"):
            too_much()
        p.flush(20)
        p.send("t", b"again").result(20)
        assert p._core.accumulator.buffer.used == 0


# --- callbacks, flush, close --------------------------------------------------------------------


def test_callbacks_get_metadata_or_error_and_may_fail(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[Exception | None, RecordMetadata | None]] = []

    def fail(*_: Any) -> None:
        raise ValueError("a bug of the user")

    with quick_producer(broker) as p:
        p.send("t", b"0", on_delivery=fail)
        p.send("t", b"1", on_delivery=lambda *result: seen.append(result)).result(30)
        broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
        p.send("t", b"2", on_delivery=lambda *result: seen.append(result))
        p.flush(5)
    assert seen[0][0] is None
    assert seen[0][1] is not None
    assert seen[0][1].offset == 1
    assert isinstance(seen[1][0], KafkaError)
    assert seen[1][1] is None
    assert "a bug of the user" in caplog.text


def test_a_callback_may_send_but_not_wait(broker: ScriptedBroker) -> None:
    outcome: list[BaseException] = []
    done = threading.Event()

    def again(error: Exception | None, metadata: RecordMetadata | None) -> None:
        p.send("t", b"from a callback")
        try:
            p.flush()
        except LocalProtocolError as caught:
            outcome.append(caught)
        done.set()

    with quick_producer(broker) as p:
        p.send("t", b"0", on_delivery=again)
        assert done.wait(30)
    assert broker.values("t") == [b"0", b"from a callback"]
    assert "inside a callback" in str(outcome[0])


def test_flush_sends_what_lingers(broker: ScriptedBroker) -> None:
    with quick_producer(broker, linger_ms=60_000) as p:
        delivery = p.send("t", b"0")
        p.flush(5)
        assert delivery.done()
        p.flush(0)


def test_flush_can_time_out_and_loses_nothing(broker: ScriptedBroker) -> None:
    with quick_producer(broker) as p:
        p.send("t", b"0").result(30)
        broker.script(ApiKey.PRODUCE, Late(3))
        delivery = p.send("t", b"1")
        with pytest.raises(TimedOutError, match=r"flush\(\) did not end.*1 records are not"):
            p.flush(0.05)
        assert delivery.result(30).offset == 1


def test_close_delivers_what_is_pending_and_ends_everything(broker: ScriptedBroker) -> None:
    threads = threading.active_count()
    p = quick_producer(broker, linger_ms=60_000)
    deliveries = [p.send("t", value) for value in numbers(10)]
    p.close()
    p.close()
    assert all(delivery.done() for delivery in deliveries)
    assert broker.values("t") == numbers(10)
    with pytest.raises(ClosedError):
        p.send("t", b"x")
    with pytest.raises(ClosedError):
        p.flush()
    assert threading.active_count() == threads


def test_close_gives_up_after_its_deadline_and_says_so(broker: ScriptedBroker) -> None:
    p = quick_producer(broker)
    p.send("t", b"0").result(30)
    broker.stop()
    delivery = p.send("t", b"1")
    with pytest.raises(TimedOutError, match=r"1 records were not delivered in 0\.1 s"):
        p.close(timeout=0.1)
    with pytest.raises(TimedOutError, match="the producer was closed"):
        delivery.result(0)
    broker.start()


def test_an_error_in_a_with_block_is_not_hidden_by_the_close(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        with quick_producer(broker, delivery_timeout_ms=1_500) as p:
            p.send("t", b"0").result(30)
            broker.stop()
            p.send("t", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    broker.start()


def test_senders_that_race_with_close_are_served_or_refused(broker: ScriptedBroker) -> None:
    p = quick_producer(broker)
    p.send("t", b"first").result(30)
    accepted: list[Any] = []

    def send() -> None:
        try:
            while True:
                accepted.append(p.send("t", b"x"))
        except ClosedError:
            pass

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    p.close()
    for thread in threads:
        thread.join()
    assert len(broker.values("t")) == 1 + len(accepted)
    assert all(delivery.done() for delivery in accepted)


def test_acks_0_asks_for_no_answer(broker: ScriptedBroker) -> None:
    with quick_producer(broker, acks=0) as p:
        found = [p.send("t", value).result(30) for value in numbers(5)]
        assert {m.offset for m in found} == {-1}
    eventually(lambda: len(broker.values("t")) >= 5)
    assert broker.values("t") == numbers(5)


def test_a_coroutine_can_await_its_delivery(broker: ScriptedBroker) -> None:
    async def work(p: Producer) -> list[int]:
        return [found.offset for found in await asyncio.gather(*[_send(p) for _ in range(3)])]

    async def _send(p: Producer) -> RecordMetadata:
        return await p.send("t", b"x")

    with quick_producer(broker) as p:
        assert sorted(asyncio.run(work(p))) == [0, 1, 2]


def test_many_threads_many_partitions(broker: ScriptedBroker) -> None:
    broker.create("wide", 5)
    with quick_producer(broker, batch_size=300) as p:

        def send(thread: int) -> None:
            for number in range(100):
                p.send("wide", b"%d-%d" % (thread, number), key=b"%d" % number)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for partition in range(5):
        records = broker.log("wide", partition).records()
        stamps = [stamp_of(record.headers) for record in records]
        assert stamps == [Stamp(p.instance, partition, n, "srv") for n in range(len(records))]
    assert sum(len(broker.values("wide", partition)) for partition in range(5)) == 400


# --- settings -----------------------------------------------------------------------------------


def test_settings_that_are_none_are_named_with_the_likely_one() -> None:
    with pytest.raises(TypeError, match="did you mean linger_ms"):
        Producer(bootstrap_servers="h:1", linger=5)  # type: ignore  # that is the test
    with pytest.raises(TypeError, match="did you mean batch_size"):
        Producer(**{"bootstrap_servers": "h:1", "batch.size": 5})  # type: ignore[arg-type] # so is this


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 2},
        {"acks": True},
        {"compression_type": "brotli"},
        {"batch_size": 0},
        {"linger_ms": -1},
        {"max_in_flight": 6},
        {"server": "x" * 256},
        {"bootstrap_servers": None},
        {"zookeeper_connect": "h:2181/x"},
        {"bootstrap_servers": "nonsense"},
    ],
)
def test_settings_that_cannot_be_are_user_errors(settings: dict[str, Any]) -> None:
    threads = threading.active_count()
    with pytest.raises(UserError):
        Producer(**({"bootstrap_servers": "h:1"} | settings), audit=False)
    assert threading.active_count() == threads


def test_nothing_is_said_about_a_quiet_life(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), quick_producer(broker) as p:
        p.send("t", b"x").result(30)
    assert caplog.text == ""
