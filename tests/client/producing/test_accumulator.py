from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.batches import accumulator as accumulator_module
from tallymark.client.producing.batches.accumulator import NO_WAIT, Accumulator, BatchRules
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.buffer_memory import BufferMemory
from tallymark.client.producing.batches.handover import AHEAD, LONGEST, LOW, Handover
from tallymark.client.producing.batches.many_records import ManyRecords
from tallymark.client.producing.batches.partition_queue import PartitionQueue, TopicQueues
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import BufferFullError, ClosedError, KafkaError, TimedOutError
from tallymark.protocol.records.batch import Record, split_batches
from tallymark.protocol.schema import Buffer

INSTANCE = b"\x11" * 8


class Bench:
    """An accumulator without anything behind it."""

    def __init__(
        self,
        batch_size: int = 1000,
        memory: int = 1 << 20,
        partitions: int = 1,
        linger: float = 1.0,
    ) -> None:
        self.woken = 0
        self.buffer = BufferMemory(memory)
        rules = BatchRules(batch_size, linger, delivery_timeout=100.0)
        self.accumulator = Accumulator(rules, self.buffer, Handover(self._wake))
        self.topic = TopicQueues("t")
        self.topic.grow(
            partitions,
            lambda owner, p: PartitionQueue(owner, p, INSTANCE, "srv", Pipeline(True, 5)),
        )
        self.queue = self.topic.queues[0]

    def _wake(self) -> None:
        self.woken += 1

    def add(self, value: bytes, timestamp: int | None = None, **more: Any) -> Any:
        options: dict[str, Any] = {"stamped": True, "block": 0.05} | more
        return self.accumulator.append(self.queue, None, value, (), timestamp, **options)

    def batches(self) -> list[list[Record]]:
        """What has been sealed, and then what is open."""
        with self.queue.lock:
            self.queue.seal()
        found: list[list[Record]] = []
        for batch in self.queue.sealed:
            (one,) = split_batches(batch.encode("none"))
            one.check_crc()
            found.append(one.records())
        return found


def sequences(records: Sequence[Record]) -> list[int]:
    stamps = [stamp_of(record.headers) for record in records]
    assert all(isinstance(stamp, Stamp) for stamp in stamps)
    return [stamp.sequence for stamp in stamps if isinstance(stamp, Stamp)]


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=400), min_size=1, max_size=60))
def test_records_keep_their_order_and_batches_are_ranges(values: list[bytes]) -> None:
    bench = Bench()
    for value in values:
        bench.add(value)
    batches = bench.batches()
    assert [record.value for batch in batches for record in batch] == values
    assert [s for batch in batches for s in sequences(batch)] == list(range(len(values)))
    for batch, sealed in zip(batches, bench.queue.sealed, strict=True):
        assert sealed.first_stamp == sequences(batch)[0]
        assert sealed.size <= 1000
        assert sealed.payload == sum(len(record.value or b"") for record in batch)
        assert list(sealed.timestamps) == [record.timestamp for record in batch]


def test_a_record_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    bench = Bench()
    for size in (10, 5000, 10):
        bench.add(bytes(size))
    assert [len(batch) for batch in bench.batches()] == [1, 1, 1]


def test_a_full_batch_is_sealed_at_once_and_wakes_the_sender() -> None:
    bench = Bench()
    bench.add(bytes(500))
    assert bench.queue.open is None
    assert bench.woken
    assert list(bench.accumulator.handover.begun) == [bench.queue]


def test_stamped_and_unstamped_records_do_not_share_a_batch() -> None:
    bench = Bench()
    bench.add(b"a")
    bench.add(b"b", stamped=False)
    bench.add(b"c")
    batches = bench.batches()
    assert [[r.value for r in batch] for batch in batches] == [[b"a"], [b"b"], [b"c"]]
    assert batches[1][0].headers == ()
    assert sequences(batches[0] + batches[2]) == [0, 1]


def test_a_record_that_does_not_encode_uses_no_sequence_and_harms_no_other() -> None:
    bench = Bench()
    bench.add(b"a")
    careless: Any = (("name", 5),)
    with pytest.raises((TypeError, AttributeError)):
        bench.accumulator.append(bench.queue, None, b"x", careless, None, stamped=True)
    bench.add(b"b")
    (records,) = bench.batches()
    assert [record.value for record in records] == [b"a", b"b"]
    assert sequences(records) == [0, 1]


def test_a_full_buffer_makes_senders_wait_and_names_itself() -> None:
    bench = Bench(batch_size=1000, memory=2500)
    for _ in range(2):
        bench.add(bytes(800))
    started = time.monotonic()
    with pytest.raises(TimedOutError, match=r"2000 of 2500 bytes \(buffer_memory\)"):
        bench.add(bytes(800))
    assert time.monotonic() - started >= 0.05
    assert bench.buffer.waiting == 0
    timer = threading.Timer(0.02, bench.buffer.release, (1000,))
    timer.start()
    bench.add(bytes(800), block=5.0)
    timer.join()
    assert bench.buffer.used == 2000


def test_who_waits_gets_on_though_little_is_given_back() -> None:
    """Threads are woken when there is room for many batches; where one partition is stuck, that
    may never come, and what another one gives back must do."""
    buffer = BufferMemory(8000)
    buffer.force_reserve(8000)
    timer = threading.Timer(0.05, buffer.release, (100,))
    timer.start()
    assert buffer.reserve(100, time.monotonic() + 60)
    timer.join()
    assert (buffer.used, buffer.waiting) == (8000, 0)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.integers(0, 5000), st.data())
def test_as_many_records_as_fit_are_taken(sizes: list[int], room: int, data: st.DataObject) -> None:
    queue = Bench().queue
    records = ManyRecords([bytes(size) for size in sizes], None, None, ())
    start = data.draw(st.integers(0, len(sizes) - 1))
    most = data.draw(st.integers(1, len(sizes) - start))
    needs = [records.need(start + index, queue, True) for index in range(most)]
    fitting = [count for count in range(1, most + 1) if sum(needs[:count]) <= room]
    count = max(fitting, default=1)
    assert records.fitting(start, most, room, queue, True) == (count, sum(needs[:count]))


def test_who_must_not_wait_takes_the_room() -> None:
    bench = Bench(batch_size=1000, memory=1500)
    bench.add(bytes(800))
    bench.add(bytes(800), block=None)
    assert bench.buffer.used == 2000


def test_a_record_that_no_buffer_holds_is_refused_at_once() -> None:
    bench = Bench(memory=2000)
    with pytest.raises(KafkaError, match="exceeds the producer's buffer"):
        bench.add(bytes(3000), block=60)


def test_nothing_is_taken_after_close() -> None:
    bench = Bench()
    bench.add(b"a")
    bench.accumulator.closed = True
    with pytest.raises(ClosedError):
        bench.add(b"b")
    bench.add(b"report", report=True)
    assert bench.buffer.used == 1000


def test_threads_share_a_partition_without_a_gap() -> None:
    bench = Bench(batch_size=500)
    threads = [
        threading.Thread(target=lambda: [bench.add(b"x" * 20) for _ in range(200)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [s for batch in bench.batches() for s in sequences(batch)]
    assert found == list(range(800))
    stamps = [r.timestamp for batch in bench.batches() for r in batch]
    assert stamps == sorted(stamps)


def test_records_without_key_stick_to_a_partition_until_its_batch_is_sealed() -> None:
    bench = Bench(partitions=4)
    first = bench.topic.choose(None)
    assert bench.topic.choose(None) is first
    bench.queue = first
    for _ in range(20):
        bench.add(bytes(100))
    assert bench.topic.choose(None) is not first


def test_keys_choose_as_kafkas_clients_do() -> None:
    bench = Bench(partitions=10)
    assert bench.topic.choose(b"21").partition == bench.topic.choose(b"21").partition
    # murmur2("21") = -973932308 in Kafka's own tests
    assert bench.topic.choose(b"21").partition == (-973932308 & 0x7FFFFFFF) % 10


# --- the quick way ------------------------------------------------------------------------------


def test_the_quick_way_gives_the_same_batches() -> None:
    """A value alone goes into the batch that is open or a new one; what the quick way cannot do
    it leaves."""
    quick, plain = Bench(), Bench()
    done = 0
    for number in range(40):
        value = bytes(number)
        plain.add(value)
        if quick.accumulator.append_value(quick.topic, value) is None:
            quick.add(value)
        else:
            done += 1
    assert done > 30
    same = [[r.value for r in batch] for batch in plain.batches()]
    assert [[r.value for r in batch] for batch in quick.batches()] == same
    assert len(same) > 2
    assert quick.buffer.used == plain.buffer.used


def test_the_quick_way_waits_for_nothing() -> None:
    """Where there is no room, or the producer is closed, the other way says so."""
    full = Bench(batch_size=1000, memory=1500)
    full.add(bytes(800))
    assert full.accumulator.append_value(full.topic, bytes(800)) is None
    assert full.buffer.used == 1000
    closed = Bench()
    closed.accumulator.closed = True
    assert closed.accumulator.append_value(closed.topic, b"late") is None
    assert closed.buffer.used == 0


def test_the_quick_way_keeps_away_from_batches_with_more_columns() -> None:
    bench = Bench()
    bench.accumulator.append(bench.queue, b"key", b"a", (), None, stamped=True, block=1)
    assert bench.accumulator.append_value(bench.topic, b"b") is None
    bench.add(b"c", stamped=False)  # an interceptor's own
    assert bench.accumulator.append_value(bench.topic, b"d") is None
    bench.add(b"e")
    delivery = bench.accumulator.append_value(bench.topic, b"f")
    assert delivery is not None
    assert delivery.place[1] == 1


def test_a_batch_has_no_more_records_than_it_may() -> None:
    bench = Bench(batch_size=100_000)
    bench.accumulator = Accumulator(
        BatchRules(100_000, 1.0, 100.0, most_records=3), bench.buffer, Handover(bench._wake)
    )
    for number in range(10):
        if bench.accumulator.append_value(bench.topic, b"%d" % number) is None:
            bench.add(b"%d" % number)
    assert [len(batch) for batch in bench.batches()] == [3, 3, 3, 1]


def fill(bench: Bench, way: str) -> None:
    """3000 records of 200 bytes, by ``append_value``, ``append`` or ``append_some``."""
    values: list[Buffer | None] = [bytes(200)] * 3000
    if way == "many":
        records, start = ManyRecords(values, None, None, ()), 0
        while start < len(records):
            start += bench.accumulator.append_some(bench.queue, records, start, True, 0.0)[2]
        return
    for _ in values:
        if way == "plain" or not bench.accumulator.append_value(bench.topic, bytes(200)):
            bench.add(bytes(200))


@pytest.mark.parametrize("way", ["quick", "plain", "many"])
def test_a_batch_that_would_have_to_wait_grows(way: str) -> None:
    """Where the partition has more than it may send, a new batch of the usual size would only wait
    behind it: fewer large ones cost less. Up to 128 KB, while there is memory."""
    usual, crowded, refused = (Bench(4096, memory=1 << 22, linger=0) for _ in range(3))
    crowded.queue.crowded = refused.queue.crowded = True
    refused.queue.grows = False
    fill(usual, way if way != "many" else "plain")
    for bench in (crowded, refused):
        fill(bench, way)
    assert [len(b) for b in usual.batches()] == [len(b) for b in refused.batches()]
    assert sum(len(b) for b in crowded.batches()) == 3000
    sizes = [batch.size for batch in crowded.queue.sealed]
    assert max(sizes) <= 128 * 1024
    assert min(sizes[:-1]) > 127 * 1024
    assert max(batch.size for batch in usual.queue.sealed) <= 4096
    reserved = sum(batch.reserved for batch in crowded.queue.sealed)
    assert crowded.buffer.used == reserved


def test_a_list_makes_large_batches_at_once() -> None:
    """All of it is there: no record waits for another. Batches of 16 KB halved the speed."""
    bench = Bench(4096, memory=1 << 22, linger=0)
    fill(bench, "many")
    bench.batches()
    sizes = [batch.size for batch in bench.queue.sealed]
    assert min(sizes[:-1]) > 127 * 1024
    assert max(sizes) <= 128 * 1024


@pytest.mark.parametrize("way", ["quick", "plain"])
@pytest.mark.parametrize(
    ("linger", "seconds_a_record", "grows"),
    [(1.0, 1e-6, True), (1.0, 1e-3, False), (0.0, 1e-6, False)],
)
@pytest.mark.slow
def test_a_batch_grows_where_it_fills_within_a_millisecond(
    monkeypatch: pytest.MonkeyPatch, way: str, linger: float, seconds_a_record: float, grows: bool
) -> None:
    """The larger one leaves hardly later. Who sets no linger does not want even that."""
    now = itertools.count(1000.0, seconds_a_record)
    bench = Bench(4096, memory=1 << 22, linger=linger)
    monkeypatch.setattr(accumulator_module, "_monotonic", lambda: now.__next__())
    fill(bench, way)
    bench.batches()
    usual = [batch.size <= 4096 for batch in bench.queue.sealed]
    assert not any(usual[:-1]) if grows else all(usual)


def test_who_wants_small_batches_gets_them() -> None:
    """A batch_size of 1 is a way to say: each record by itself."""
    bench = Bench(batch_size=1)
    bench.queue.crowded = True
    for number in range(5):
        bench.add(b"%d" % number)
    assert [len(batch) for batch in bench.batches()] == [1] * 5


def test_a_batch_does_not_grow_where_memory_is_short() -> None:
    bench = Bench(batch_size=4096, memory=3 * 4096)
    bench.queue.crowded = True
    while bench.accumulator.append_value(bench.topic, bytes(200)) is not None:
        pass
    with pytest.raises(BufferFullError):
        bench.add(bytes(200), block=NO_WAIT)
    assert bench.buffer.used == bench.buffer.limit
    assert [batch.reserved for batch in bench.queue.sealed] == [8192, 4096]


def test_whose_bytes_may_change_they_are_copied() -> None:
    bench = Bench()
    value = bytearray(b"before")
    bench.accumulator.append(bench.queue, value, value, (), None, stamped=True, block=1)
    value[:] = b"after!"
    (((record),),) = bench.batches()
    assert (record.key, record.value) == (b"before", b"before")


def test_who_may_not_wait_is_told_at_once() -> None:
    bench = Bench(batch_size=1000, memory=1500)
    bench.add(bytes(800))
    with pytest.raises(BufferFullError, match=r"1000 of 1500 bytes \(buffer_memory\)"):
        bench.add(bytes(800), block=NO_WAIT)


def test_a_sender_that_is_far_ahead_steps_aside_until_the_backlog_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handover = Bench().accumulator.handover
    queue = Bench().queue
    batch = ProducerBatch("t", 0, None, 0.0, 1.0)
    waits: list[float] = []
    monkeypatch.setattr(handover._go_on, "wait", waits.append)  # no waiting here
    for _ in range(2 * AHEAD):
        handover.sealed(queue, batch)
    assert waits == [LONGEST] * 2
    for _ in range(2 * AHEAD):
        handover.sealed(queue, batch, may_wait=False)
    assert len(waits) == 2
    assert handover._waiting
    handover.end_pump((), LOW + 1)
    assert not handover._go_on.is_set()
    handover.end_pump((), LOW)
    assert handover._go_on.is_set()
