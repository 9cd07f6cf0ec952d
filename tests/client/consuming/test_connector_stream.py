"""Streams: what is handed out, what counts as taken, and when nothing is handed out."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest
from eventually import eventually

from tallymark.client.consuming.stream import Chunk, Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress, SubscriptionState
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import (
    ClosedError,
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches


def batch(first: int, count: int, epoch: int = 0, control: bool = False) -> Batch:
    data = bytearray(
        encode_batch(
            [(None, b"%d" % (first + index), (), 17) for index in range(count)],
            base_offset=first,
            leader_epoch=epoch,
        )
    )
    if control:
        data[22] |= 0x20  # the CRC is the fetcher's affair
    (found,) = split_batches(data)
    return found


def chunk(item: PartitionProgress, batches: Sequence[Batch], start: int | None = None) -> Chunk:
    first = batches[0].header.base_offset if start is None else start
    header = batches[-1].header
    return Chunk(item, batches, first, header.next_offset, header.partition_leader_epoch)


class Setting:
    def __init__(self, queue_bytes: int = 10_000) -> None:
        self.gate = Gate()
        self.gate.open(0)
        self.room = threading.Event()
        self.stream = Stream(self.gate, self.room, queue_bytes)
        self.item = PartitionProgress("t", 0, 0, Position(0))


def test_messages_come_in_order_and_count_as_taken_one_by_one() -> None:
    its = Setting()
    assert its.stream.offer(chunk(its.item, [batch(0, 2), batch(2, 1, epoch=1)]))
    first = next(its.stream)
    assert (first.topic, first.partition, first.offset) == ("t", 0, 0)
    assert (first.value, first.timestamp, first.leader_epoch) == (b"0", 17, 0)
    assert its.item.taken == Position(1, 0)
    assert next(its.stream).offset == 1
    last = next(its.stream)
    assert (last.offset, last.leader_epoch) == (2, 1)
    assert its.item.taken == Position(3, 1)
    assert its.stream.poll() == []


def test_poll_takes_many_and_no_more_than_asked() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 3), batch(3, 3)]))
    assert [m.offset for m in its.stream.poll(max_messages=4)] == [0, 1, 2, 3]
    assert its.item.taken == Position(4, 0)
    assert [m.offset for m in its.stream.poll(max_messages=4)] == [4, 5]
    assert its.item.taken == Position(6, 0)


def test_a_fetch_from_the_middle_of_a_batch_leaves_out_what_was_consumed() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 5)], start=3))
    assert [m.offset for m in its.stream.poll()] == [3, 4]


def test_transaction_markers_are_no_messages_but_move_the_position() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 1), batch(1, 1, control=True)]))
    assert [m.offset for m in its.stream.poll()] == [0]
    assert its.stream.poll() == []
    assert its.item.taken == Position(2, 0)


def test_a_reset_moves_the_position_when_the_application_gets_there() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 1)]))
    its.stream.offer(Chunk(its.item, (), 7, 7, -1))
    assert its.item.taken is None
    its.stream.poll()
    assert its.item.taken == Position(7, 0)


def test_a_cut_moves_the_position_back_and_forgets_the_epochs_that_are_gone() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2, epoch=1), batch(2, 2, epoch=2)]))
    its.stream.offer(Chunk(its.item, (), 2, 2, -1))
    its.stream.poll()
    assert its.item.taken == Position(2, 1)


def test_nothing_is_handed_out_while_the_gate_is_closed() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    next(its.stream)
    its.gate.suspend()
    assert its.stream.poll(0.01) == []
    its.gate.open(0)  # by someone who has not heard of the suspension
    assert its.stream.poll() == []
    its.gate.open(its.gate.mark())
    assert [m.offset for m in its.stream.poll()] == [1]


def test_what_was_given_up_is_neither_handed_out_nor_queued() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    next(its.stream)
    its.stream.revoke([its.item])
    assert its.stream.poll() == []
    assert its.item.taken == Position(1, 0)
    assert not its.stream.offer(chunk(its.item, [batch(2, 2)]))
    again = PartitionProgress("t", 0, 0, Position(1))
    assert its.stream.offer(chunk(again, [batch(0, 2)], start=1))
    assert [m.offset for m in its.stream.poll()] == [1]


def test_a_full_queue_has_no_room_until_it_is_taken() -> None:
    its = Setting(queue_bytes=100)
    its.stream.offer(chunk(its.item, [batch(0, 10)]))
    assert not its.stream.has_room
    its.stream.poll(max_messages=9)
    assert not its.room.is_set()
    its.stream.poll()
    assert its.stream.has_room
    assert its.room.is_set()


def test_a_batch_that_does_not_decode_swallows_nothing_before_it() -> None:
    its = Setting()
    broken = batch(2, 2)
    broken.data[61] ^= 0x7F
    its.stream.offer(chunk(its.item, [batch(0, 2), broken]))
    assert [m.offset for m in its.stream.poll()] == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            its.stream.poll()
    assert its.item.taken == Position(2, 0)


def test_an_iterator_waits_and_ends_at_shutdown() -> None:
    its = Setting()
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(m.offset for m in its.stream))
    reader.start()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    eventually(lambda: found == [0, 1], every=0.005)
    its.stream.end()
    reader.join(60)
    assert not reader.is_alive()
    with pytest.raises(ClosedError):
        its.stream.poll()


def test_a_failure_is_raised_at_every_call() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    its.stream.end(KafkaError(29, "t"))
    its.stream.end()
    for _ in range(2):
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            next(its.stream)


def test_batches_are_the_same_messages_as_columns() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 5), batch(5, 3, epoch=1)], start=2))
    other = PartitionProgress("t", 1, 0, Position(0))
    its.stream.offer(chunk(other, [batch(0, 1, control=True), batch(1, 2)]))
    its.stream.offer(chunk(other, [batch(3, 1)]))
    batches = its.stream.batches()
    first = next(batches)
    assert (first.topic, first.partition, list(first.offsets)) == ("t", 0, [2, 3, 4, 5, 6, 7])
    assert first.values() == [b"%d" % n for n in range(2, 8)]
    assert (first.next_offset, first.last_epoch) == (8, 1)
    assert its.item.taken == Position(8, 1)
    assert its.stream.held() == {its.item: 2}
    second = next(batches)
    assert (second.partition, list(second.offsets)) == (1, [1, 2, 3])
    assert its.stream.held() == {other: 1}
    assert other.taken == Position(4, 0)
    its.stream.end()
    assert list(batches) == []


def test_messages_and_batches_may_be_mixed() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 10), batch(10, 10)]))
    found = [next(its.stream).offset for _ in range(3)]
    found += [message.offset for message in its.stream.poll(max_messages=2)]
    found += [next(its.stream).offset for _ in range(2)]
    assert its.item.taken == Position(7, 0)
    found += next(its.stream.batches()).offsets
    assert found == list(range(20))
    assert its.item.taken == Position(20, 0)


def test_a_batch_ends_with_its_partition_also_behind_a_marker() -> None:
    """Messages of partition 1 once came in a batch that said partition 0: what lay between them was
    the marker at the end of a transaction, which was passed over without looking whose chunk came
    next."""
    its, other = Setting(), PartitionProgress("t", 1, 0, Position(0))
    its.stream.offer(chunk(its.item, [batch(0, 2), batch(2, 1, control=True)]))
    its.stream.offer(chunk(other, [batch(7, 1, control=True), batch(8, 3)]))
    first, second = its.stream.poll_batch(), its.stream.poll_batch()
    assert first is not None
    assert (first.partition, list(first.offsets)) == (0, [0, 1])
    assert its.item.taken == Position(3, 0)
    assert second is not None
    assert (second.partition, list(second.offsets)) == (1, [8, 9, 10])


def test_a_large_queue_is_no_large_batch() -> None:
    """Batches are bounded by what they are unpacked, not by what they were on the wire."""
    its = Setting(queue_bytes=100_000_000)
    large = split_batches(encode_batch([(None, bytes(700_000), (), 1)], compression="zstd"))
    for _ in range(6):
        its.stream.offer(Chunk(its.item, large, 0, 1, 0))
    assert [len(one) for _, one in zip(range(3), its.stream.batches(), strict=False)] == [2, 2, 2]


def test_what_is_broken_comes_after_what_is_whole() -> None:
    its = Setting()
    broken = batch(2, 2)
    broken.data[61] ^= 0x7F
    its.stream.offer(chunk(its.item, [batch(0, 2), broken]))
    assert list(next(its.stream.batches()).offsets) == [0, 1]
    with pytest.raises(CorruptMessageError, match="t-0 at offset 2"):
        next(its.stream.batches())
    with pytest.raises(CorruptMessageError):
        next(its.stream)
    assert its.item.taken == Position(2, 0)


def test_iterating_gives_up_after_its_timeout() -> None:
    gate = Gate()
    gate.open(0)
    stream = Stream(gate, threading.Event(), timeout_ms=20)
    for _ in range(2):
        with pytest.raises(TimedOutError, match="consumer_timeout_ms=20"):
            next(stream)
    with pytest.raises(TimedOutError):
        next(stream.batches())
    item = PartitionProgress("t", 0, 0, Position(0))
    stream.offer(chunk(item, [batch(0, 1)]))
    assert next(stream).offset == 0
    stream.end()
    assert list(stream) == []
    assert list(stream.batches()) == []


def test_a_partition_that_is_taken_away_while_it_is_read() -> None:
    """Messages are handed out without a lock. Whatever the moment: what the position says was
    handed out was handed out, and nothing is after :meth:`revoke` has returned."""
    for pause in range(12):
        its = Setting(queue_bytes=10_000_000)
        its.stream.offer(chunk(its.item, [batch(0, 5_000)]))
        found: list[int] = []
        positions: list[int] = []

        def read(stream: Stream, into: list[int]) -> None:
            into.extend(message.offset for message in stream)

        reader = threading.Thread(target=read, args=(its.stream, found))
        reader.start()
        while len(positions) < pause * 30 or not found:
            taken = its.item.taken
            positions.append(taken.offset if taken else 0)
        its.stream.revoke([its.item])
        taken = its.item.taken
        its.stream.end()
        reader.join(60)
        assert not reader.is_alive()
        assert taken is not None
        assert found == list(range(taken.offset))
        assert positions == sorted(positions)


def test_iterating_goes_on_where_other_calls_have_come_to() -> None:
    """Iterating takes messages without asking the stream about each: what else is called in between
    must be seen all the same, and what is in hand is the last message, whoever handed it out."""
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 10), batch(10, 10)]))
    found: list[int] = []
    for message in its.stream:
        found.append(message.offset)
        assert its.stream.held() == {its.item: message.offset}
        if message.offset == 3:
            found += [one.offset for one in its.stream.poll(max_messages=2)]
            assert its.stream.held() == {its.item: 4}
            found.append(next(its.stream).offset)
        if message.offset == 9:
            its.stream.settle()
            assert its.stream.held() == {}
        if message.offset == 12:
            break
    found += [message.offset for message in its.stream.poll()]
    assert found == list(range(20))


def test_a_gate_that_closes_stops_whoever_iterates() -> None:
    """Between two messages that are handed out without the lock nobody looks at the gate: closing
    it ends what may be had so."""
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 1000)]))
    found: list[int] = []

    def read() -> None:
        for message in its.stream:
            found.append(message.offset)
            if message.offset == 10:
                its.gate.suspend()

    reader = threading.Thread(target=read)
    reader.start()
    eventually(lambda: found and its.stream.standing() is None, what="it waits", every=0.005)
    assert found == list(range(11))
    assert its.item.taken == Position(11, 0)
    its.gate.open(its.gate.mark())
    its.stream.wake()
    eventually(lambda: len(found) >= 1000, every=0.005)
    its.stream.end()
    reader.join(60)
    assert not reader.is_alive()
    assert found == list(range(1000))


def test_a_gate_that_closes_at_any_moment() -> None:
    for pause in range(12):
        its = Setting(queue_bytes=10_000_000)
        its.stream.offer(chunk(its.item, [batch(0, 5_000)]))
        found: list[int] = []

        def read(stream: Stream, into: list[int]) -> None:
            into.extend(message.offset for message in stream)

        reader = threading.Thread(target=read, args=(its.stream, found))
        reader.start()
        while len(found) < pause * 200 + 1:
            pass
        deadline = time.monotonic() + 60
        while len(found) < 5_000:
            assert time.monotonic() < deadline
            its.gate.suspend()
            seen = its.item.taken
            assert seen is not None
            its.gate.open(its.gate.mark())
            its.stream.wake()
            time.sleep(0.001)
        its.stream.end()
        reader.join(60)
        assert not reader.is_alive()
        assert found == list(range(5_000))


def test_small_batches_are_read_together_but_not_beyond_an_epoch_a_marker_or_a_broken_one() -> None:
    its = Setting()
    broken = batch(9, 2, epoch=1)
    broken.data[61] ^= 0x7F
    batches = [batch(0, 2), batch(2, 2), batch(4, 1, control=True), batch(5, 2), batch(7, 2, 1)]
    its.stream.offer(chunk(its.item, [*batches, broken]))
    expected = [(0, 0), (1, 0), (2, 0), (3, 0), (5, 0), (6, 0), (7, 1), (8, 1)]
    for offset, epoch in expected:
        message = next(its.stream)
        assert (message.offset, message.leader_epoch) == (offset, epoch)
        assert its.item.taken == Position(offset + 1, epoch)
    for _ in range(2):
        with pytest.raises(CorruptMessageError, match="t-0 at offset 9"):
            next(its.stream)
    assert its.item.taken == Position(9, 1)


def test_chunks_are_what_was_fetched() -> None:
    """For who passes batches on: undecoded, bounded by their bytes, taken as a whole."""
    its = Setting()
    other = PartitionProgress("t", 1, 0, Position(0))
    first = chunk(its.item, [batch(0, 5), batch(5, 3, epoch=1)], start=2)
    broken = batch(0, 2)
    broken.data[61] ^= 0x7F
    second, third = chunk(other, [broken]), chunk(its.item, [batch(8, 1, epoch=1)])
    for one in (first, second, third):
        its.stream.offer(one)
    assert its.stream.poll_chunks(max_bytes=1) == [first]
    assert its.item.taken == Position(8, 1)
    assert its.stream.held() == {its.item: 2}
    assert its.stream.metrics().messages == 8
    assert its.stream.poll_chunks(max_bytes=1 << 20) == [second, third]
    assert (its.item.taken, other.taken) == (Position(9, 1), Position(2, 0))
    assert its.stream.held() == {its.item: 8, other: 0}
    assert its.stream.poll_chunks(timeout=0.01) == []
    assert its.stream.held() == {}
    its.stream.end()
    with pytest.raises(ClosedError):
        its.stream.poll_chunks()


def test_chunks_wait_for_the_gate_and_for_what_must_be_stored_first() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    its.gate.suspend()
    assert its.stream.poll_chunks() == []
    its.gate.open(its.gate.mark())
    its.stream.offer(Chunk(its.item, (), 7, 7, -1))
    assert [one.next_offset for one in its.stream.poll_chunks()] == [2, 7]
    assert its.item.taken == Position(7, 0)

    may = [False, True]
    gate = Gate()
    gate.open(0)
    careful = Stream(gate, threading.Event(), clear=lambda chunk: may.pop(0))
    careful.offer(chunk(its.item, [batch(7, 2)]))
    assert careful.poll_chunks() == []
    assert [one.next_offset for one in careful.poll_chunks()] == [9]


def test_chunks_of_a_partition_that_was_given_up_are_gone() -> None:
    its = Setting()
    other = PartitionProgress("t", 1, 0, Position(0))
    kept = chunk(other, [batch(0, 1)])
    for one in (chunk(its.item, [batch(0, 2)]), kept, chunk(its.item, [batch(2, 2)])):
        its.stream.offer(one)
    its.stream.revoke([its.item])
    assert its.stream.poll_chunks() == [kept]
    assert its.item.taken is None


def test_its_metrics() -> None:
    its = Setting()
    its.stream.offer(chunk(its.item, [batch(0, 2)]))
    waiting = chunk(its.item, [batch(2, 3)])
    waiting.high_watermark = 9
    its.stream.offer(waiting)
    its.stream.poll(max_messages=2)
    found = its.stream.metrics()
    assert (found.messages, found.batches, found.queued_bytes) == (2, 1, waiting.size)
    assert found.bytes > 0
    assert found.lag == {("t", 0): 7}
    its.stream.poll()
    assert its.stream.metrics().lag == {("t", 0): 4}
    its.stream.revoke([its.item])
    assert its.stream.metrics().lag == {}


def test_the_book_knows_what_to_store() -> None:
    positions = SubscriptionState()
    items = positions.start({("t", 0): 0, ("t", 1): 0}, {("t", 0): Position(5, 1)})
    assert positions.uncommitted() == {}
    items[0].take(5, 6, 1)
    items[1].take(0, 1, 2)
    assert positions.uncommitted() == {("t", 0): Position(6, 1), ("t", 1): Position(1, 2)}
    positions.mark_stored({("t", 0): Position(6, 1)})
    assert positions.uncommitted() == {("t", 1): Position(1, 2)}
    positions.forget()
    assert positions.uncommitted() == {}


def test_offsets_of_the_applications_choice_get_their_epochs() -> None:
    positions = SubscriptionState()
    (item,) = positions.start({("t", 0): 0}, {("t", 0): Position(5, 1)})
    item.take(5, 6, 1)
    item.take(6, 7, 3)
    assert positions.positions({("t", 0): 6}) == {("t", 0): Position(6, 1)}
    assert positions.positions({("t", 0): 7}) == {("t", 0): Position(7, 3)}
    assert positions.positions({("t", 0): 2}) == {("t", 0): Position(2, -1)}
    with pytest.raises(UserError, match="-1 is no offset of t-0"):
        positions.positions({("t", 0): -1})
    with pytest.raises(KafkaError, match=r"t-1 is not owned by this consumer \(any more\)"):
        positions.positions({("t", 1): 1})
