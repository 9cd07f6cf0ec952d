"""Readers of committed records: where a Fetch and ListOffsets end, what they leave out, and what
wakes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest
from transactional_appends import end, on_the_loop, put

from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import LATEST
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

LONG_MS = 200_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


@pytest.fixture
def topic(wire: WireClient) -> str:
    name = f"t{uuid.uuid4().hex[:8]}"
    wire.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)]), 12)
    return name


def asked(topic: str, offset: int, *, level: int = 1, wait_ms: int = 0) -> m.FetchRequest:
    part = m.FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return m.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=level,
        topics=[m.FetchRequestTopic(topic=topic, partitions=[part])],
    )


def fetch(
    wire: WireClient, topic: str, offset: int, *, level: int = 1, version: int = 12
) -> m.FetchResponsePartition:
    return wire.ask(asked(topic, offset, level=level), version).responses[0].partitions[0]


def aborted(part: m.FetchResponsePartition) -> Sequence[tuple[int, int]] | None:
    found = part.aborted_transactions
    return None if found is None else [(each.producer_id, each.first_offset) for each in found]


def offsets(part: m.FetchResponsePartition) -> list[int]:
    return [r.offset for each in split_batches(part.records or b"") for r in each.records()]


def latest(wire: WireClient, topic: str, level: int, version: int = 7) -> int:
    part = m.ListOffsetsRequestPartition(partition_index=0, timestamp=LATEST)
    request = m.ListOffsetsRequest(
        isolation_level=level,
        topics=[m.ListOffsetsRequestTopic(name=topic, partitions=[part])],
    )
    return wire.ask(request, version).topics[0].partitions[0].offset


def test_committed_readers_stop_at_the_first_open_transaction(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    on_the_loop(broker, topic, lambda at: at.append(bytearray(plain(b"a")), 1000))
    on_the_loop(broker, topic, lambda at: put(at, b"b", b"c"))
    on_the_loop(broker, topic, lambda at: at.append(bytearray(plain(b"d")), 1000))
    for version in range(4, 13):
        part = fetch(wire, topic, 0, version=version)
        assert (part.high_watermark, part.last_stable_offset) == (4, 1), version
        assert (offsets(part), aborted(part)) == ([0], []), version
        everything = fetch(wire, topic, 0, level=0, version=version)
        assert (offsets(everything), aborted(everything)) == ([0, 1, 2, 3], None), version
    assert offsets(fetch(wire, topic, 2)) == [], "an offset behind the end is no error"
    assert [latest(wire, topic, level) for level in (0, 1)] == [4, 1]
    assert latest(wire, topic, 0, version=1) == 4, "a version without isolation levels"


def test_the_aborted_transactions_of_the_records_are_named(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    on_the_loop(broker, topic, lambda at: put(at, b"a", producer=7))
    on_the_loop(broker, topic, lambda at: put(at, b"b", producer=9))
    on_the_loop(broker, topic, lambda at: end(at, 7, commit=False))
    on_the_loop(broker, topic, lambda at: end(at, 9, commit=True))
    for version in range(4, 13):
        part = fetch(wire, topic, 0, version=version)
        assert (aborted(part), part.last_stable_offset) == ([(7, 0)], 4), version
        assert len(split_batches(part.records or b"")) == 4, version
    assert aborted(fetch(wire, topic, 3)) == [], "it ended before"
    assert latest(wire, topic, 1) == 4


def test_an_aborted_transaction_is_named_from_the_file_of_an_earlier_start() -> None:
    """Its index is not in memory then: it is read in a thread."""
    with MemoryBroker() as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            wire.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")]), 12)
            on_the_loop(broker, "t", lambda at: put(at, b"a"))
            on_the_loop(broker, "t", lambda at: at.log.roll())
            on_the_loop(broker, "t", lambda at: end(at, commit=False))
        broker.stop()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            assert aborted(fetch(wire, "t", 0)) == [(7, 0)]


def test_a_committed_reader_sleeps_below_an_open_transaction_and_wakes_at_its_end(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    """Each append woke it for nothing: a busy topic with one open transaction cost a look at each
    batch for each reader."""
    on_the_loop(broker, topic, lambda at: put(at, b"a"))
    wire.send(asked(topic, 0, wait_ms=LONG_MS), 12)
    while not on_the_loop(broker, topic, lambda at: len(at.stable_readers)):
        pass
    looks: list[int] = []

    class Counted:
        def set(self) -> None:
            looks.append(1)

    on_the_loop(broker, topic, lambda at: at.stable_readers.watch(Counted()))
    for number in range(1, 4):
        on_the_loop(broker, topic, lambda at, n=number: put(at, b"more", first=n))  # type: ignore[misc]
    assert looks == []
    on_the_loop(broker, topic, lambda at: end(at, commit=True))
    assert looks == [1]
    part = decode_response(wire.frame(), m.FetchRequest, 12)[1].responses[0].partitions[0]
    assert offsets(part)[:4] == [0, 1, 2, 3]


def test_a_producers_transaction_is_described(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    on_the_loop(broker, topic, lambda at: put(at, b"a", b"b"))

    def producer() -> m.DescribeProducersResponseProducer:
        request = m.DescribeProducersRequest(
            topics=[m.DescribeProducersRequestTopic(name=topic, partition_indexes=[0])]
        )
        return wire.ask(request, 0).topics[0].partitions[0].active_producers[0]

    assert (producer().current_txn_start_offset, producer().coordinator_epoch) == (0, -1)
    on_the_loop(broker, topic, lambda at: end(at, commit=True))
    assert (producer().current_txn_start_offset, producer().coordinator_epoch) == (-1, 3)


def plain(value: bytes) -> bytes:
    return encode_batch([(None, value, (), 1000)])
