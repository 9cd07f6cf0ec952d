"""Columns of records through the producer, against a broker that does what it is told to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tallymark.client.producing.batch_delivery import BatchMetadata, OffsetRange
from tallymark.client.producing.interceptors.queue_interceptor import (
    OutgoingRecord,
    QueueInterceptor,
)
from tallymark.client.producing.producer import Producer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CODES, BufferFullError, ClosedError, KafkaError, TimedOutError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.murmur2 import partition_of
from tallymark.testing.scripted_broker import Late, Refuse, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1, "wide": 4}) as running:
        yield running


def producer(broker: ScriptedBroker, **settings: Any) -> Producer:
    quick: dict[str, Any] = {"audit": False, "stamp": True, "linger_ms": 1, "server": "srv"}
    return Producer(bootstrap_servers=broker.address, **(quick | settings))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_list_arrives_in_order_and_says_where(broker: ScriptedBroker) -> None:
    told: list[Any] = []
    with producer(broker, batch_size=500) as p:
        p.send("t", b"before").result(30)
        delivery = p.send_many("t", numbers(100), on_delivery=lambda *end: told.append(end))
        assert len(delivery) == 100
        found = delivery.result(30)
        p.send("t", b"behind").result(30)
        assert p.metrics()["records_acknowledged"] == 102
    assert found == BatchMetadata("t", 100, (OffsetRange(0, 1, 100, 100),))
    assert told == [(None, found)]
    assert broker.values("t") == [b"before", *numbers(100), b"behind"]
    stamps = [stamp_of(record.headers) for record in broker.log("t").records()]
    assert stamps == [Stamp(p.instance, 0, number, "srv") for number in range(102)]
    assert len(broker.log("t").batches) > 5


def test_keys_timestamps_headers_and_nulls(broker: ScriptedBroker) -> None:
    keys = [b"a", None, b"b", b"a", b"c"]
    with producer(broker) as p:
        p.send_many(
            "wide",
            [b"0", b"1", None, b"3", b"4"],
            keys=keys,
            timestamps=[5, 4, 3, 2, 1],
            headers=[("h", b"x"), ("tm", b"somebody else's")],
        ).result(30)
    seen: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for partition in range(4):
        for record in broker.log("wide", partition).records():
            assert [name for name, _ in record.headers] == ["h", "tm"]
            assert isinstance(stamp_of(record.headers), Stamp)
            seen.setdefault(record.key, []).append((record.value, record.timestamp))
            if record.key is not None:
                assert partition == partition_of(bytes(record.key), 4)
    assert seen == {
        b"a": [(b"0", 5), (b"3", 2)],
        None: [(b"1", 4)],
        b"b": [(None, 3)],
        b"c": [(b"4", 1)],
    }


def test_a_partition_or_a_rule_of_the_user(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send_many("wide", numbers(3), partition=2, timestamps=7).result(30)
        with pytest.raises(KafkaError, match="has 4 partitions"):
            p.send_many("wide", numbers(3), partition=4)
    assert [r.timestamp for r in broker.log("wide", 2).records()] == [7, 7, 7]
    with producer(broker, partitioner=lambda topic, key, numbers: int(key or 0)) as p:
        p.send_many("wide", numbers(3), keys=[b"1", b"3", b"1"]).result(30)
    assert broker.values("wide", 1) == [b"0", b"2"]
    assert broker.values("wide", 3) == [b"1"]


def test_records_without_key_are_spread_batch_by_batch(broker: ScriptedBroker) -> None:
    with producer(broker, batch_size=500) as p:
        found = p.send_many("wide", [bytes(50)] * 400).result(30)
    assert {one.partition for one in found.ranges} == {0, 1, 2, 3}
    assert sum(one.count for one in found.ranges) == found.count == 400


class Column:
    """Something that makes a list of itself, as NumPy, pandas and Arrow have it."""

    def __init__(self, values: Sequence[Any], name: str) -> None:
        setattr(self, name, lambda: list(values))


@pytest.mark.parametrize("name", ["tolist", "to_pylist"])
def test_columns_of_other_libraries(broker: ScriptedBroker, name: str) -> None:
    with producer(broker) as p:
        p.send_many("t", Column(numbers(3), name), timestamps=Column([1, 2, 3], name)).result(30)
        p.send_many("t", (bytearray(b"3"), memoryview(b"4")))
        p.flush(5)
    assert broker.values("t") == numbers(5)


def test_what_is_done_to_the_values_later_does_not_matter(broker: ScriptedBroker) -> None:
    """A bytearray in a column was kept as it is until its batch was encoded, so what its owner put
    into it meanwhile was sent; send() had copied it from the first."""
    mine, key = bytearray(b"one"), bytearray(b"key")
    with producer(broker, linger_ms=60_000) as p:
        p.send_many("t", [mine, b"two"], keys=[key, None])
        mine[:], key[:] = b"bad", b"BAD"
    assert [(r.key, r.value) for r in broker.log("t").records()] == [
        (b"key", b"one"),
        (None, b"two"),
    ]


def test_numpy_and_its_times(broker: ScriptedBroker) -> None:
    numpy = pytest.importorskip("numpy")
    times = numpy.array(["2024-01-01T00:00:00", "2024-01-01T00:00:01"], dtype="datetime64[ns]")
    with producer(broker) as p:
        p.send_many("t", numpy.array([b"a", b"b"]), timestamps=times).result(30)
    records = broker.log("t").records()
    assert [(r.value, r.timestamp) for r in records] == [
        (b"a", 1_704_067_200_000),
        (b"b", 1_704_067_201_000),
    ]


def test_encoders_one_by_one_and_all_at_once(broker: ScriptedBroker) -> None:
    class Doubling:
        """Counts how it is called."""

        calls = 0

        def __call__(self, topic: str, value: Any) -> bytes:
            return str(value).encode()

        def encode_many(self, topic: str, values: Sequence[Any]) -> list[bytes]:
            self.calls += 1
            return [str(2 * value).encode() for value in values]

    doubling = Doubling()
    with producer(broker, value_encoder=doubling, key_encoder=lambda t, k: k.encode()) as p:
        p.send_many("t", [1, None, 3], keys=["a", "b", "c"]).result(30)
    with producer(broker, value_encoder=lambda topic, value: b"%d" % value) as p:
        p.send_many("t", [4, None]).result(30)
    assert doubling.calls == 1
    assert broker.values("t") == [b"2", None, b"6", b"4", None]


def test_what_cannot_be_is_said(broker: ScriptedBroker) -> None:
    class Short:
        def __call__(self, topic: str, value: Any) -> bytes:
            return b""

        def encode_many(self, topic: str, values: Sequence[Any]) -> list[bytes]:
            return []

    with producer(broker) as p:
        with pytest.raises(ValueError, match="3 values and 2 keys"):
            p.send_many("t", numbers(3), keys=numbers(2))
        with pytest.raises(ValueError, match="3 values and 1 timestamps"):
            p.send_many("t", numbers(3), timestamps=[1])
        with pytest.raises(ValueError, match="milliseconds"):
            p.send_many("t", numbers(3), timestamps=-1)
        with pytest.raises(TypeError, match="value_encoder"):
            p.send_many("t", ["text"])
        with pytest.raises(TypeError, match="use send"):
            p.send_many("t", b"one value")
        assert p.send_many("t", []).result(0) == BatchMetadata("t", 0, ())
    with pytest.raises(ClosedError):
        p.send_many("t", numbers(3))
    with producer(broker, value_encoder=Short()) as p, pytest.raises(ValueError, match="0 of 3"):
        p.send_many("t", [1, 2, 3])
    assert broker.values("t") == []


def test_a_full_buffer_blocks_fails_or_drops(broker: ScriptedBroker) -> None:
    """Where a first send waited for 0.1 s at most, a busy machine did not answer in time."""
    small: dict[str, Any] = {"batch_size": 1000, "buffer_memory": 3000}
    many = [bytes(700)] * 10
    for policy, error in (("block", TimedOutError), ("fail", BufferFullError)):
        with producer(broker, on_buffer_full=policy, max_block_ms=1_000, **small) as p:
            p.send("t", b"0").result(20)
            broker.script(ApiKey.PRODUCE, Late(2))
            with pytest.raises(error, match=r"buffer_memory.*3 records of this call were taken"):
                p.send_many("t", many)
            p.flush(20)
            assert p.dropped == 0
    with producer(broker, on_buffer_full="drop", **small) as p:
        p.send("t", b"0").result(20)
        broker.script(ApiKey.PRODUCE, Late(2))
        delivery = p.send_many("t", many)
        with pytest.raises(BufferFullError, match="buffer_memory"):
            delivery.result(20)
        assert p.dropped == 7
        assert p.metrics()["records_dropped"] == 7
    assert len(broker.values("t")) == 3 + 3 * 3


def test_the_first_error_says_how_many_failed(broker: ScriptedBroker) -> None:
    with producer(broker, batch_num_messages=10) as p:
        p.send("t", b"0").result(30)
        broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]))
        with pytest.raises(KafkaError, match="10 of 30 records failed; t-0: INVALID_RECORD"):
            p.send_many("t", numbers(30)).result(30)
    assert broker.values("t") == [b"0", *numbers(30)[10:]]


def test_interceptors_see_every_record_of_a_column(broker: ScriptedBroker) -> None:
    class Odd(QueueInterceptor):
        """Lets odd ones in, and makes them longer."""

        def before_enqueue(self, record: OutgoingRecord) -> OutgoingRecord | None:
            number = int(record.value)
            if number % 2 == 0:
                return None
            return OutgoingRecord(record.topic, record.value + b"!", timestamp=record.timestamp)

    with producer(broker, interceptors=[Odd()]) as p:
        delivery = p.send_many("t", numbers(6), timestamps=[*range(6)])
        p.flush(5)
        assert "3 of 6 records failed" in "".join(
            [str(delivery.exception(0)), *getattr(delivery.exception(0), "__notes__", [])]
        )
    records = broker.log("t").records()
    assert [(r.value, r.timestamp) for r in records] == [(b"1!", 1), (b"3!", 3), (b"5!", 5)]
