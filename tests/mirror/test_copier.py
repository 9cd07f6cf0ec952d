"""What is copied, how, left out, waited for and refused, between a source and a target of the
test."""

from __future__ import annotations

import time
import tracemalloc
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hostile_batches import MB, bomb, garbage

from tallymark.client.core.partition_layout import Layout
from tallymark.errors import CODES, KafkaError, TimedOutError, UserError
from tallymark.mirror.copying.copier import Copier
from tallymark.mirror.copying.duplicate_bound import DuplicateBound
from tallymark.mirror.copying.topics import TargetTopics
from tallymark.mirror.corruption import UnfitBatchError
from tallymark.mirror.observer import MirrorContext, ObserverChain, load_observers
from tallymark.mirror.refused import RefusedPartitions
from tallymark.mirror.source.gaps import GapNotes
from tallymark.mirror.source.source import Source, SourceBatch
from tallymark.mirror.target.loop_guard import LoopGuard
from tallymark.mirror.target.ready_batch import Origin, ReadyBatch
from tallymark.mirror.target.target import Target
from tallymark.protocol.records.batch import Batch, place_batch, split_batches
from tallymark.protocol.records.compiled import kernel, repartition
from tallymark.protocol.records.writer import encode_batch

P = ("clicks", 0)
MANY = 30
"""Records of a batch that is not small."""


@pytest.fixture(params=["pure", "compiled"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """New batches are made by decoding, or by the compiled loops."""
    if request.param == "compiled":
        pytest.importorskip("numba")
        repartition.warm()
        assert kernel.KERNEL.wait(250)
        assert repartition.KERNEL.wait(250)
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repartition.KERNEL, "_compiled", None)
        yield


@dataclass
class Ends:
    """Source, target, topics and origins in one."""

    there: bool = True
    offset: int = -1
    compacted: bool = False
    partitions: int = 1
    keeps: bool = True
    trouble: list[Exception] = field(default_factory=list)
    gap_notes: GapNotes = field(default_factory=GapNotes)
    refused: RefusedPartitions = field(default_factory=RefusedPartitions)
    forgotten: list[str] = field(default_factory=list)
    sent: list[ReadyBatch] = field(default_factory=list)
    came_from: dict[int, Origin] = field(default_factory=dict)

    def stored(self, partition: object) -> int:
        return self.offset

    def exists(self, topic: str) -> bool:
        return self.there

    def of(self, producer_id: int) -> Origin:
        return self.came_from.get(producer_id, frozenset())

    def is_new(self, topic: str) -> bool:
        return False

    def layout(self, topic: str, partition: int) -> Layout:
        if not self.there:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], topic)
        if self.trouble:
            raise self.trouble.pop()
        return Layout(f"dc1.{topic}", self.partitions, self.keeps)

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    def is_compacted(self, topic: str) -> bool:
        return self.compacted

    def wait_for_room(self) -> None:
        pass

    def send(self, batch: ReadyBatch) -> None:
        self.sent.append(batch)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for batch in self.sent for record in batch.batch.records()]


class Listener:
    """An observer that remembers gaps, and fails at everything else."""

    def __init__(self) -> None:
        self.gaps: list[tuple[Any, ...]] = []

    def attach(self, context: MirrorContext) -> None:
        raise ZeroDivisionError

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        raise ZeroDivisionError

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self.gaps.append((topic, partition, from_offset, to_offset, reason))

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        raise ZeroDivisionError

    def on_close(self, now_ms: int) -> None:
        raise ZeroDivisionError


def copier_of(ends: Ends, listener: Listener | None = None, most: int = 10_000) -> Copier:
    copier = Copier(
        cast(Source, ends),
        cast(Target, ends),
        cast(TargetTopics, ends),
        ObserverChain([listener] if listener else []),
        cast(LoopGuard, ends),
        "A",
        "B",
        DuplicateBound(most),
    )
    copier.progress.begin(P, 0)
    return copier


def batch(offset: int, count: int = 1, **how: Any) -> Batch:
    """Records with their offsets as values."""
    records = [(b"k%d" % n, b"%d" % n, (), 1000 + n) for n in range(offset, offset + count)]
    settings: dict[str, Any] = {"leader_epoch": 0, "compression": "lz4", **how}
    (found,) = split_batches(encode_batch(records, base_offset=offset, **settings))
    return found


def thinned(offset: int, count: int, kept: Sequence[int]) -> Batch:
    """A batch of which compaction has left the records ``kept``."""
    whole = batch(offset, count, compression="none")
    header = whole.header._replace(record_count=len(kept))
    records = [record for record in whole.records() if record.offset in kept]

    class Columns:
        size = whole.header.size

        def timestamp_bounds(self) -> tuple[int, int]:
            return 0, 0

        def records(self) -> list[Any]:
            return records

    class Thinned(Batch):
        def columns(self, max_size: int = 0) -> Any:
            return Columns()

    return Thinned(header, whole.data)


def feed(copier: Copier, *batches: Batch, start: int = 0, topic: str = "clicks") -> None:
    waiting = deque(SourceBatch(topic, 0, start, one) for one in batches)
    while waiting:
        copier.copy(waiting)


def numbers(*found: int) -> list[bytes]:
    return [b"%d" % number for number in found]


# -- how it goes out --------------------------------------------------------------------------


def test_a_batch_passes_whole_but_for_the_numbers_of_its_header() -> None:
    ends = Ends()
    copier = copier_of(ends)
    one = batch(0, MANY, producer_id=7, producer_epoch=1, base_sequence=40)
    feed(copier, one)
    (sent,) = ends.sent
    assert (sent.topic, sent.partition) == ("dc1.clicks", 0)
    sent.identity, sent.base_sequence = (99, 3), 500
    (out,) = split_batches(b"".join(sent.pieces()))
    out.check_crc()
    assert bytes(out.data[61:]) == bytes(one.data[61:]), "the records are as compressed as before"
    assert out.header[9:12] == (99, 3, 500)
    assert out.header.base_offset == 0
    assert out.header.codec == "lz4"
    assert [record[1:] for record in out.records()] == [record[1:] for record in one.records()]
    sent.on_settled(None, 12)
    copier.settle()
    assert (copier.copied, copier.whole) == (MANY, MANY)
    assert copier.arrived[0].base_offset == 12


def test_small_batches_go_out_together() -> None:
    ends = Ends()
    copier = copier_of(ends)
    feed(copier, batch(0), batch(1, 2), batch(3), batch(4, MANY), batch(34))
    assert [one.count for one in ends.sent] == [4, MANY, 1]
    assert ends.values == numbers(*range(35))
    assert copier.progress.to_store({P}) == {}
    for one in ends.sent:
        one.on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {P: 35}
    assert copier.progress.take_copied() == {P: [(0, 34)]}


def test_only_what_is_wanted_of_a_batch() -> None:
    """The stored offset lies in the middle of it: somebody set it by hand."""
    ends = Ends()
    copier = copier_of(ends)
    copier.progress.begin(P, 25)
    feed(copier, batch(0, MANY), start=25)
    assert ends.values == numbers(*range(25, MANY))


def test_the_key_decides_where_partitions_are_not_kept() -> None:
    ends = Ends(partitions=3, keeps=False)
    copier = copier_of(ends)
    feed(copier, batch(0, MANY), batch(MANY, MANY))
    assert {one.partition for one in ends.sent} == {0, 1, 2}
    assert sorted(ends.values, key=lambda value: int(value or b"")) == numbers(*range(2 * MANY))
    layout = Layout("x", 3, keeps=False)
    for one in ends.sent:
        offsets = [int(record.value or b"") for record in one.batch.records()]
        assert offsets == sorted(offsets)
        assert all(layout.partition_of(r.key, 0) == one.partition for r in one.batch.records())
    ends.sent[0].on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {}, "its other parts are under way"
    for one in ends.sent[1:]:
        one.on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {P: 2 * MANY}
    assert copier.copied == 2 * MANY
    assert copier.whole == 0
    assert Layout("x", 3, keeps=False).partition_of(None, 4) == 1


def test_times_of_the_broker_become_those_of_the_records() -> None:
    one = batch(0, MANY, compression="none")
    header = one.header._replace(attributes=0x08)
    stamped = Batch(header, one.data)
    ends = Ends()
    feed(copier_of(ends), stamped)
    (sent,) = ends.sent
    assert {record.timestamp for record in sent.batch.records()} == {header.max_timestamp}
    assert not sent.batch.header.is_log_append_time


# -- where it comes from ----------------------------------------------------------------------


def test_what_came_from_the_target_is_not_copied_back() -> None:
    ends = Ends(came_from={5: frozenset({"B"}), 6: frozenset({"C"})})
    listener = Listener()
    copier = copier_of(ends, listener)
    other = {"producer_epoch": 0, "base_sequence": 0}
    back = batch(MANY, MANY, producer_id=5, **other)
    feed(copier, batch(0, MANY), back, batch(2 * MANY, MANY, producer_id=6, **other))
    assert [one.origin for one in ends.sent] == [{"A"}, {"A", "C"}]
    assert copier.returned == MANY
    assert listener.gaps == []
    for one in ends.sent:
        one.on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {P: 3 * MANY}


def test_small_batches_of_different_origin_do_not_go_out_together() -> None:
    ends = Ends(came_from={6: frozenset({"C"})})
    feed(
        copier_of(ends),
        batch(0),
        batch(1, producer_id=6, producer_epoch=0, base_sequence=0),
        batch(2),
    )
    assert [one.origin for one in ends.sent] == [{"A"}, {"A", "C"}, {"A"}]


# -- holes ------------------------------------------------------------------------------------


def test_holes_are_told_with_their_reason() -> None:
    for compacted, reason in ((True, "compaction"), (False, "unknown")):
        ends, listener = Ends(compacted=compacted), Listener()
        copier = copier_of(ends, listener)
        feed(copier, batch(2, 2), batch(5, MANY), batch(40, MANY))
        assert ends.values == numbers(2, 3, *range(5, 35), *range(40, 70))
        gaps = [(first, end) for _, _, first, end, _ in listener.gaps]
        assert gaps == [(0, 2), (4, 5), (35, 40)]
        assert {gap[4] for gap in listener.gaps} == {reason}


def test_a_batch_that_compaction_has_thinned_out_is_made_dense() -> None:
    """A broker does not take it as it is."""
    ends, listener = Ends(compacted=True), Listener()
    copier = copier_of(ends, listener)
    one = thinned(0, MANY, [1, 2, 20])
    ends.gap_notes.note(P, [one.header])
    feed(copier, one, batch(MANY, MANY))
    assert ends.values == numbers(1, 2, 20, *range(MANY, 2 * MANY))
    assert [gap[2:] for gap in listener.gaps] == [
        (0, 1, "compaction"),
        (3, 20, "compaction"),
        (21, MANY, "compaction"),
    ]
    for sent in ends.sent:
        sent.on_settled(None, -1)
    copier.settle()
    assert copier.progress.take_copied() == {P: [(1, 2), (20, 20), (MANY, 2 * MANY - 1)]}


def test_markers_are_passed_by_and_told() -> None:
    """The stored offset moves on behind them: else the mirror was behind for ever."""
    ends, listener = Ends(), Listener()
    copier = copier_of(ends, listener)
    marker = batch(MANY, 1, compression="none")
    marker = Batch(marker.header._replace(attributes=0x30), marker.data)
    ends.gap_notes.note(P, [marker.header])
    feed(copier, batch(0, MANY), marker)
    ends.sent[0].on_settled(None, -1)
    copier.settle()
    assert listener.gaps == [("clicks", 0, MANY, MANY + 1, "control")]
    assert copier.progress.to_store({P}) == {P: MANY + 1}


def test_what_was_aborted_is_told_also_where_the_log_begins_with_it() -> None:
    """Of a group that has no offset yet nobody told what was left out before its first message."""
    ends, listener = Ends(), Listener()
    copier = copier_of(ends, listener)
    copier.progress.begin(P)
    marker = batch(5, 1, compression="none")
    marker = Batch(marker.header._replace(attributes=0x30), marker.data)
    ends.gap_notes.aborted(P, [batch(0, 5).header])
    ends.gap_notes.note(P, [marker.header])
    feed(copier, marker, batch(6, MANY))
    assert listener.gaps == [("clicks", 0, 0, 5, "aborted"), ("clicks", 0, 5, 6, "control")]
    assert ends.values == numbers(*range(6, 6 + MANY))


# -- how much is under way --------------------------------------------------------------------


def test_no_more_is_sent_than_a_kill_may_repeat() -> None:
    """The bound was what a second brings, and what a busy machine makes of a second."""
    ends = Ends()
    copier = copier_of(ends, most=70)
    waiting = deque(SourceBatch("clicks", 0, 0, batch(at, MANY)) for at in range(0, 120, MANY))
    assert [copier.copy(waiting) for _ in range(3)] == [True, True, False]
    assert not copier.copy(waiting)
    assert len(waiting) == 2
    for sent in ends.sent:
        sent.on_settled(None, -1)
    copier.settle()
    assert not copier.copy(waiting), "acknowledged, but not stored"
    copier.progress.stored(copier.progress.to_store({P}))
    copier.duplicates.stored(copier.progress.unstored({P}))
    assert [copier.copy(waiting) for _ in range(2)] == [True, True]
    assert ends.values == numbers(*range(120))


def test_small_batches_are_put_together_as_far_as_there_is_room() -> None:
    ends = Ends()
    copier = copier_of(ends, most=25)
    waiting = deque(SourceBatch("clicks", 0, 0, batch(at, 10)) for at in range(0, 50, 10))
    assert copier.copy(waiting)
    assert not copier.copy(waiting)
    assert [sent.count for sent in ends.sent] == [20]


# -- trouble ----------------------------------------------------------------------------------


def test_what_could_not_be_sent_is_tried_again_and_its_hole_told_once() -> None:
    ends, listener = Ends(trouble=[TimedOutError("away"), TimedOutError("away")]), Listener()
    copier = copier_of(ends, listener)
    for _ in range(2):
        with pytest.raises(TimedOutError):
            feed(copier, batch(3))
    feed(copier, batch(3))
    assert ends.values == numbers(3)
    assert listener.gaps == [("clicks", 0, 0, 3, "unknown")]


def test_what_was_sent_is_not_sent_again() -> None:
    ends = Ends(offset=0)
    copier = copier_of(ends)
    feed(copier, batch(0), batch(1, MANY), batch(0), batch(1, MANY), batch(31))
    assert ends.values == numbers(*range(32))


def test_the_rest_of_a_batch_whose_beginning_was_sent() -> None:
    """Compaction may join batches between two fetches."""
    ends = Ends(offset=0)
    copier = copier_of(ends)
    feed(copier, batch(0, 10), batch(0, MANY))
    assert ends.values == numbers(*range(MANY))


def test_a_topic_that_is_gone_everywhere_is_left_out() -> None:
    ends, listener = Ends(there=False), Listener()
    copier = copier_of(ends, listener)
    feed(copier, batch(0))
    assert ends.sent == []
    assert listener.gaps == [("clicks", 0, 0, 1, "deleted")]


def test_a_topic_that_the_target_refuses_is_named() -> None:
    """Anybody may make a topic of the source, and the target may not take its name or settings."""
    ends = Ends(trouble=[KafkaError(CODES["INVALID_CONFIG"])])
    copier = copier_of(ends)
    feed(copier, batch(0))
    assert ends.sent == []
    assert copier.restarted == {P: 0}
    assert "the target cannot have the topic clicks" in str(ends.refused.held(P))
    copier = copier_of(Ends(trouble=[KafkaError(CODES["CLUSTER_AUTHORIZATION_FAILED"])]))
    with pytest.raises(UserError, match="the target cannot have the topic clicks"):
        feed(copier, batch(0))


def hostile(offset: int, data: bytes) -> Batch:
    room = bytearray(data)
    place_batch(room, 0, offset, 0)
    (found,) = split_batches(bytes(room))
    return found


def test_what_does_not_decode_is_left_out_where_it_has_to_be_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """200 random bytes under a right CRC: the partition stopped until somebody restarted the
    mirror. A thousand of them make one line."""
    ends, listener = Ends(keeps=False, partitions=3), Listener()
    copier = copier_of(ends, listener)
    bad = [hostile(3 + 2 * at, garbage(at, count=2, last_delta=1)) for at in range(100)]
    feed(copier, batch(0, 3), *bad, batch(203, 3))
    assert sorted(value or b"" for value in ends.values) == sorted(numbers(0, 1, 2, 203, 204, 205))
    assert listener.gaps == [("clicks", 0, at, at + 2, "corrupt") for at in range(3, 203, 2)]
    for one in ends.sent:
        one.on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {P: 206}
    (line,) = [one for one in caplog.messages if "left out" in one]
    assert line.startswith("clicks-0: offsets 3 to 4 cannot be copied and are left out: ")


def test_what_does_not_decode_passes_as_it_is_where_nobody_has_to_open_it() -> None:
    """Its small neighbours are put together all the same."""
    ends, listener = Ends(), Listener()
    bad = hostile(4, garbage(count=3, last_delta=2))
    feed(copier_of(ends, listener), batch(0, 2), batch(2, 2), bad, batch(7), batch(8))
    assert [one.count for one in ends.sent] == [4, 3, 2]
    assert bytes(ends.sent[1].batch.data) == bytes(bad.data)
    assert listener.gaps == []


def test_more_records_than_there_are_bytes_are_left_out() -> None:
    """A header that claims 2,147,483,647 records: nothing else might be under way, so the other
    topics moved in bursts."""
    most = 2**31 - 1
    ends, listener = Ends(), Listener()
    copier = copier_of(ends, listener)
    bad = hostile(1, garbage(count=most, last_delta=most - 1))
    feed(copier, batch(0), bad, batch(1 + most))
    assert ends.values == numbers(0, 1 + most)
    assert listener.gaps == [("clicks", 0, 1, 1 + most, "corrupt")]
    assert copier.duplicates.count == 2


def test_times_that_no_batch_can_hold_are_left_out() -> None:
    """A client may produce a timestamp beyond 64 bits, as a base and a delta. To encode it for the
    target failed, which ended the mirror, and again after each start."""
    ends, listener = Ends(keeps=False, partitions=2), Listener()
    copier = copier_of(ends, listener)
    latest = 2**63 - 1
    early, late = [(b"k", b"v", (), 5), (b"k", b"v", (), 6)], [(b"k", b"v", (), latest)]
    data = bytearray(encode_batch(early, leader_epoch=0))
    data[27:35] = latest.to_bytes(8)
    apart = [(b"k", b"v", (), -10)]
    batches = [
        bytes(data),
        encode_batch(late, base_offset=2, leader_epoch=0),
        encode_batch(apart, base_offset=3, leader_epoch=0),
    ]
    feed(copier, *(split_batches(each)[0] for each in batches))
    assert listener.gaps == [("clicks", 0, 0, 2, "corrupt")]
    assert [record.timestamp for one in ends.sent for record in one.batch.records()] == [
        latest,
        -10,
    ]
    assert len(ends.sent) == 2


@pytest.mark.slow
def test_batches_are_merged_by_what_they_hold_unpacked() -> None:
    """64 kB of small batches, a record of 250 MB each, were put together: 3.3 GB in the mirror, and
    at the target one batch that no consumer of ours reads."""
    ends = Ends()
    bombs = [hostile(1 + at, bomb(250)) for at in range(6)]
    tracemalloc.start()
    feed(copier_of(ends), batch(0), *bombs, batch(7), batch(8))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.count for one in ends.sent] == [1, 1, 1, 1, 1, 1, 1, 2]
    assert [bytes(one.batch.data) for one in ends.sent[1:7]] == [bytes(b.data) for b in bombs]
    assert peak < 2 * MB
    packed = Ends()
    feed(copier_of(packed), *(hostile(at, bomb(1)) for at in range(4)))
    assert [one.count for one in packed.sent] == [1] * 4


def test_what_holds_too_much_to_be_taken_apart_is_left_out() -> None:
    ends, listener = Ends(keeps=False, partitions=3), Listener()
    hostile_one = hostile(1, bomb(250))  # made before memory is counted: making it takes 500 MB
    tracemalloc.start()
    feed(copier_of(ends, listener), batch(0), hostile_one, batch(2))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(value or b"" for value in ends.values) == numbers(0, 2)
    assert listener.gaps == [("clicks", 0, 1, 2, "corrupt")]
    assert peak < 2 * MB


def test_records_that_the_target_refuses_are_left_out_and_named() -> None:
    """A batch of nonsense passed whole, the target looked into it and refused it: the mirror ended,
    and was started again, for ever."""
    ends, listener = Ends(), Listener()
    copier = copier_of(ends, listener)
    feed(copier, batch(0, MANY), batch(MANY, MANY))
    ends.sent[0].on_settled(UnfitBatchError("INVALID_RECORD"), -1)
    ends.sent[1].on_settled(None, -1)
    assert copier.drain(5)
    assert copier.failure is None
    assert listener.gaps == [("clicks", 0, 0, MANY, "corrupt")]
    assert copier.progress.to_store({P}) == {P: 2 * MANY}
    assert copier.progress.take_copied() == {P: [(MANY, 2 * MANY - 1)]}


def test_what_is_left_out_at_the_end_of_a_log_is_done_with() -> None:
    """Nothing came behind it, so its gap was never told, and the partition was behind for ever."""
    ends, listener = Ends(), Listener()
    copier = copier_of(ends, listener)
    feed(copier, batch(0, MANY))
    ends.gap_notes.corrupt(P, MANY, MANY + 10)
    copier.pass_over(P, MANY + 10)
    copier.pass_over(P, MANY + 10)
    assert listener.gaps == [("clicks", 0, MANY, MANY + 10, "corrupt")]
    ends.sent[0].on_settled(None, -1)
    copier.settle()
    assert copier.progress.to_store({P}) == {P: MANY + 10}
    feed(copier, batch(MANY + 10), start=MANY)
    assert ends.values[-1:] == numbers(MANY + 10)
    assert len(listener.gaps) == 1


def test_a_message_that_is_refused_holds_its_partition_and_no_other() -> None:
    """Somebody made a topic again with other settings; its messages were too large for the target's
    topic of that name. The mirror ended, was started again and ended again, and all other topics
    moved in bursts."""
    ends = Ends()
    copier = copier_of(ends)
    copier.progress.begin(("views", 0), 0)
    feed(copier, batch(0, MANY), batch(MANY, MANY), batch(2 * MANY, MANY))
    feed(copier, batch(0, MANY), topic="views")
    ends.sent[0].on_settled(None, -1)
    ends.sent[2].on_settled(None, -1)
    ends.sent[1].on_settled(KafkaError(CODES["MESSAGE_TOO_LARGE"], "max is 200"), -1)
    ends.sent[3].on_settled(None, -1)
    assert copier.drain(5), "a refused message is not waited for"
    assert copier.failure is None
    assert copier.restarted == {P: MANY}, "behind it nothing counts as copied"
    assert copier.progress.to_store({P, ("views", 0)}) == {P: MANY, ("views", 0): MANY}
    held = ends.refused.held(P)
    assert held is not None
    assert "clicks-0 cannot be copied from offset 30 on: the target refuses it" in str(held)
    assert "max is 200" in str(held)
    assert ends.refused.held(("views", 0)) is None
    assert ends.forgotten == ["clicks"]


def test_what_was_refused_is_tried_again_record_by_record() -> None:
    """Records before one that is too large were sent with it, and again with each attempt."""
    ends = Ends()
    copier = copier_of(ends)
    feed(copier, batch(0, MANY))
    ends.sent[0].on_settled(KafkaError(CODES["MESSAGE_TOO_LARGE"]), -1)
    copier.settle()
    assert ends.refused.due(time.monotonic() + 10) == [P]
    feed(copier, batch(0, MANY), batch(MANY, MANY))
    assert [one.batch.header.record_count for one in ends.sent[1:]] == [1] * MANY + [MANY]
    assert ends.values[MANY:] == numbers(*range(2 * MANY))
    for one in ends.sent[1:4]:
        one.on_settled(None, -1)
    for one in ends.sent[4:]:
        one.on_settled(KafkaError(CODES["MESSAGE_TOO_LARGE"]), -1)
    assert copier.drain(5)
    assert copier.restarted == {P: 3}
    assert copier.progress.to_store({P}) == {P: 3}
    ends.refused.due(time.monotonic() + 10)
    feed(copier, batch(0, MANY), batch(MANY, MANY), start=3)
    assert ends.values[-2 * MANY + 3 :] == numbers(*range(3, 2 * MANY))
    for one in ends.sent[-MANY + 2 :]:
        one.on_settled(None, -1)
    assert copier.drain(5)
    assert ends.refused.stopped() == {}
    assert copier.progress.to_store({P}) == {P: 2 * MANY}


def test_a_target_that_refuses_the_mirror_as_a_whole_ends_it() -> None:
    ends = Ends()
    copier = copier_of(ends)
    feed(copier, batch(0, MANY))
    ends.sent[0].on_settled(KafkaError(CODES["CLUSTER_AUTHORIZATION_FAILED"]), -1)
    assert not copier.drain(5)
    assert "clicks-0 offset 0 cannot be copied" in str(copier.failure)
    assert copier.progress.to_store({P}) == {}


def test_the_wait_doubles_while_the_same_message_is_refused() -> None:
    refused, now = RefusedPartitions(), 100.0
    waits: list[float] = []
    for _ in range(8):
        waits.append(refused.hold(P, 5, 6, "too large", now))
        assert refused.held(P)
        assert refused.due(now + waits[-1] - 0.1) == []
        now += waits[-1]
        assert refused.due(now) == [P]
        assert refused.held(P) is None
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert refused.hold(P, 6, 7, "too large", now) == 10
    refused.released()
    assert refused.held(P) is None
    refused.arrived(P, 6)
    assert refused.is_tried(P, 6)
    refused.arrived(P, 7)
    assert not refused.is_tried(P, 6)


def test_a_drain_waits_for_what_is_in_flight_but_not_for_ever() -> None:
    ends = Ends()
    copier = copier_of(ends)
    feed(copier, batch(0))
    assert not copier.drain(0.01)
    ends.sent[0].on_settled(None, -1)
    assert copier.drain(0.0)
    assert copier.progress.release() == {P: 1}


def test_an_observer_that_fails_hurts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    chain = ObserverChain([Listener()])
    for _ in range(3):
        chain.on_copied("clicks", 0, 1, 2)
        chain.on_tick(1, None)
        chain.on_close(1)
        chain.on_gap("clicks", 0, 1, 2, "control")
    assert chain.errors == 9
    assert len(caplog.records) == 3, "each kind of failure once"


def test_observers_come_by_entry_points(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Entry:
        name, value = "broken", "nowhere:none"

        def load(self) -> object:
            raise ImportError("no such module")

    class Good(Entry):
        def load(self) -> object:
            return Listener

    monkeypatch.setattr("tallymark.mirror.observer.entry_points", lambda group: [Entry(), Good()])
    (loaded,) = load_observers()
    assert isinstance(loaded, Listener)
    assert "observer broken (nowhere:none) is left out" in caplog.text
