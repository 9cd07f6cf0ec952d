"""The offset a mirror stores never passes a message that the target does not have, and what is
handed out again is neither left out nor copied twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.mirror.progress import (
    UNKNOWN,
    CopyDecision,
    CopyProgress,
    Partition,
    PartitionCopy,
    merged,
)

P: Partition = ("clicks", 0)
OURS = {P}


def begun(stored: int = UNKNOWN) -> tuple[CopyProgress, PartitionCopy]:
    progress = CopyProgress()
    return progress, progress.begin(P, stored)


def copied(copy: PartitionCopy, *offsets: int, epoch: int = 0) -> None:
    for offset in offsets:
        copy.sent(offset, epoch, 1000 + offset)
        copy.acknowledged(offset, copy.cut_count)


def test_nothing_is_stored_before_anything_was_sent() -> None:
    assert CopyProgress().to_store(OURS) == {}
    progress, _ = begun(7)
    assert progress.to_store(OURS) == {}


def test_an_open_message_holds_the_offset() -> None:
    progress, copy = begun()
    for offset in (5, 6, 7):
        copy.sent(offset, 0, 1000 - offset)
    copy.acknowledged(6, copy.cut_count)
    assert (progress.to_store(OURS), progress.oldest, progress.open_count) == ({P: 5}, 993, 2)
    copy.acknowledged(5, copy.cut_count)
    assert progress.to_store(OURS) == {P: 7}
    copy.acknowledged(7, copy.cut_count)
    assert (progress.to_store(OURS), progress.oldest, progress.open_count) == ({P: 8}, None, 0)


def test_what_is_stored_is_not_stored_again_nor_what_is_not_owned() -> None:
    progress, copy = begun()
    copied(copy, 0)
    assert progress.to_store(set()) == {}
    progress.stored(progress.to_store(OURS))
    assert progress.to_store(OURS) == {}


def test_an_acknowledgement_of_a_lost_partition_changes_nothing() -> None:
    progress, copy = begun()
    copy.sent(3, 0, 0)
    progress.forget(P)
    copy.acknowledged(3, copy.cut_count)
    assert progress.to_store(OURS) == {}
    assert progress.open_count == 0
    assert progress.take_copied() == {P: [(3, 3)]}, "the target has it all the same"


def test_an_acknowledgement_from_before_a_cut_does_not_count_for_the_message_after_it() -> None:
    """Offset 3 was in flight when the log was cut, and another message took its place. The old
    answer settled the new message, whose offset was stored before the target had it."""
    progress, copy = begun()
    old = copy.cut_count
    copy.sent(3, 0, 0)
    assert progress.decide(P, 3, 1) is CopyDecision.COPY
    copy.sent(3, 1, 0)
    copy.acknowledged(3, old)
    assert progress.to_store(OURS) == {P: 3}
    copy.acknowledged(3, copy.cut_count)
    assert progress.to_store(OURS) == {P: 4}


def test_what_is_open_below_a_cut_holds_the_offset_still() -> None:
    """Offsets 0 and 1 were in flight when the log was cut at 1. The new 1 arrived first and was
    stored; a kill then left 0 out."""
    progress, copy = begun()
    copy.sent(0, 0, 0)
    copy.sent(1, 0, 0)
    assert progress.decide(P, 1, 1) is CopyDecision.COPY
    copy.sent(1, 1, 0)
    copy.acknowledged(1, copy.cut_count)
    assert progress.to_store(OURS) == {P: 0}


def test_what_comes_again_is_left_out_if_nobody_else_had_the_partition() -> None:
    progress, copy = begun(2)
    copied(copy, 2, 3, 4, epoch=6)
    assert progress.decide(P, 2, 6) is CopyDecision.ASK
    assert progress.again(P, 2) is CopyDecision.SKIP
    assert [progress.decide(P, at, 6) for at in (3, 4, 5)] == [
        CopyDecision.SKIP,
        CopyDecision.SKIP,
        CopyDecision.COPY,
    ]

    progress, copy = begun(2)
    copied(copy, 2, 3, 4, epoch=6)
    assert progress.decide(P, 3, 6) is CopyDecision.ASK
    assert progress.again(P, 3) is CopyDecision.COPY, "somebody else has stored 3"
    assert progress.decide(P, 4, 6) is CopyDecision.COPY


def test_what_may_have_been_stored_counts_as_ours() -> None:
    progress, copy = begun(2)
    copied(copy, 2, 3)
    assert progress.to_store(OURS) == {P: 4}  # ZooKeeper did not say whether it was done
    copied(copy, 4)
    assert progress.decide(P, 4, 0) is CopyDecision.ASK
    assert progress.again(P, 4) is CopyDecision.SKIP


def test_the_first_message_may_lie_below_the_stored_offset() -> None:
    """The log was cut while nobody copied it. A source without epochs (-1) does not show that."""
    for epoch in (-1, 0, 5):
        progress, _ = begun(10)
        assert progress.decide(P, 6, epoch) is CopyDecision.COPY


def test_without_epochs_a_cut_makes_everything_new() -> None:
    progress, copy = begun()
    copied(copy, 0, 1, 2, epoch=-1)
    copy.cut_somewhere()
    assert progress.decide(P, 0, -1) is CopyDecision.COPY
    progress, copy = begun()
    copied(copy, 0, 1, 2, epoch=3)
    copy.cut_somewhere()
    assert progress.decide(P, 0, 3) is CopyDecision.ASK, (
        "with epochs the old ones are known by them"
    )


def test_a_release_remembers_what_it_can_know_again() -> None:
    progress, copy = begun()
    copied(copy, 0, 1, epoch=-1)
    nothing, is_open, known = (progress.begin(("views", number), 0) for number in (0, 1, 2))
    is_open.sent(0, -1, 0)
    copied(known, 0, 1, 2, epoch=3)
    assert progress.release() == {P: 2, ("views", 2): 3}
    assert nothing.next == 0
    kept = [progress.get(place) for place in (P, *(("views", n) for n in (0, 1, 2)))]
    assert kept == [None, None, is_open, known]


def test_what_was_copied_is_left_out_where_a_release_was_not_stored() -> None:
    """A session ended while the offsets of a rebalance were stored. The mirror had forgotten the
    partition by then, and copied all since the last stored offset a second time."""
    world = Simulation()
    world.write(4)
    world.hand_out(4)
    for _ in range(4):
        world.acknowledge(0)
    world.rebalance(stored=False)
    world.hand_out(4)
    assert world.flying == []
    world.write(1)
    world.hand_out(1)
    world.acknowledge(0)
    assert world.arrived == Counter(range(5))


def test_progress_in_a_topic_that_is_gone_counts_in_none_that_has_its_name() -> None:
    """While another consumer had the partition its topic was made again, and that one stored the
    very offset that this one had: what lies below would have been left out."""
    progress = CopyProgress()
    for before, after in (("a", "a"), ("", "a"), ("a", "")):
        progress.assigned(P, 0, before)
        copy = progress.get(P)
        assert copy is not None
        copied(copy, 0, 1, 2, epoch=3)
        progress.release()
        progress.assigned(P, 0, after)
        assert progress.get(P) is copy, "the same topic, as far as is known"
        progress.assigned(P, 0, "b")
        assert progress.decide(P, 0, 3) is CopyDecision.COPY
        progress = CopyProgress()


def test_another_consumers_progress_counts_after_a_release() -> None:
    progress, copy = begun()
    copied(copy, 0, 1, 2, epoch=3)
    progress.release()
    assert progress.decide(P, 0, 3) is CopyDecision.ASK
    assert progress.again(P, stored=1) is CopyDecision.COPY, "another one has stored that"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4))))
def test_merged_ranges_hold_the_same_offsets(spans: list[tuple[int, int]]) -> None:
    ranges = [(first, first + more) for first, more in spans]
    found = merged(ranges)
    flat = [at for first, last in found for at in range(first, last + 1)]
    assert flat == sorted({at for first, last in ranges for at in range(first, last + 1)})
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))


@dataclass
class Simulation:
    """A source log that grows and is cut, a group that hands it out, one mirror, one target."""

    progress: CopyProgress = field(default_factory=CopyProgress)
    log: list[tuple[int, int]] = field(default_factory=list)
    """Leader epoch and content of each offset."""
    epoch: int = 0
    written: int = 0
    position: int = 0
    stored: int = UNKNOWN
    stored_epoch: int = UNKNOWN
    handed: dict[int, int] = field(default_factory=dict)
    """The epoch of the record last handed out at an offset."""
    flying: list[tuple[PartitionCopy, int, int, int]] = field(default_factory=list)
    arrived: Counter[int] = field(default_factory=Counter)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.log.append((self.epoch, self.written))
            self.written += 1

    def cut(self, count: int) -> None:
        del self.log[max(0, len(self.log) - count) :]
        self.epoch += 1
        self.position = min(self.position, len(self.log))

    @property
    def resume(self) -> int:
        """Where the stored offset leads: there, or where the log was cut below it (KIP-320)."""
        later = (at for at, (epoch, _) in enumerate(self.log) if epoch > self.stored_epoch)
        return min(max(self.stored, 0), next(later, len(self.log)))

    def hand_out(self, count: int) -> None:
        for _ in range(min(count, len(self.log) - self.position)):
            offset = self.position
            self.position += 1
            epoch, content = self.log[offset]
            self.handed[offset] = epoch
            if self.progress.get(P) is None:
                self.progress.begin(P, self.stored)
            decision = self.progress.decide(P, offset, epoch)
            if decision is CopyDecision.ASK:
                decision = self.progress.again(P, self.stored)
            if decision is CopyDecision.COPY:
                copy = self.progress.get(P)
                assert copy is not None
                copy.sent(offset, epoch, 0)
                self.flying.append((copy, offset, copy.cut_count, content))

    def acknowledge(self, which: int) -> None:
        if self.flying:
            copy, offset, cut_count, content = self.flying.pop(which % len(self.flying))
            copy.acknowledged(offset, cut_count)
            self.arrived[content] += 1

    def store(self, offsets: dict[Partition, int], told: bool = True) -> None:
        if P in offsets:
            self.stored = offsets[P]
            self.stored_epoch = self.handed.get(self.stored - 1, UNKNOWN)
            if told:
                self.progress.stored(offsets)
        missing = [c for _, c in self.log[: self.resume] if not self.arrived[c]]
        assert not missing, "a mirror that is killed now would leave these out"

    def rebalance(self, stored: bool) -> None:
        """``stored``: the group stores the offsets; else its session ends just then."""
        offsets = self.progress.release()
        if stored:
            self.store(offsets, told=False)
        self.position = self.resume

    def lose_session(self) -> None:
        self.position = self.resume


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 6)),
        st.tuples(st.just("cut"), st.integers(1, 5)),
        st.tuples(st.just("hand out"), st.integers(1, 8)),
        st.tuples(st.just("acknowledge"), st.integers(0, 9)),
        st.tuples(st.just("store"), st.booleans()),
        st.tuples(st.just("rebalance"), st.booleans()),
        st.tuples(st.just("lose session"), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(OPERATIONS)
def test_everything_arrives_once_whatever_happens(operations: list[tuple[str, int]]) -> None:
    """But for kills: with one mirror that lives, every message arrives exactly once."""
    world = Simulation()
    for name, value in operations:
        match name:
            case "write":
                world.write(value)
            case "cut":
                world.cut(value)
            case "hand out":
                world.hand_out(value)
            case "acknowledge":
                world.acknowledge(value)
            case "store":
                world.store(world.progress.to_store(OURS), told=bool(value))
            case "rebalance":
                world.rebalance(bool(value))
            case _:
                world.lose_session()
    world.hand_out(len(world.log))
    while world.flying:
        world.acknowledge(0)
    world.store(world.progress.to_store(OURS))
    assert all(world.arrived[content] == 1 for _, content in world.log)
    assert max(world.arrived.values(), default=0) <= 1


def test_what_is_passed_is_what_was_acknowledged_without_a_hole() -> None:
    """What the audit takes for copied: never beyond a stretch that is still open."""
    progress = CopyProgress()
    copy = progress.begin(("t", 0), 100)
    assert progress.passed({("t", 0)}) == {("t", 0): 100}
    assert progress.begin(("t", 1)).to_store == UNKNOWN
    for first in (100, 110):
        copy.sent(first, 1, 0, first + 10, 10)
    copy.acknowledged(110, copy.cut_count, [(110, 119)])
    assert progress.passed({("t", 0), ("t", 1)}) == {("t", 0): 100}
    assert progress.passed() == {}
    copy.acknowledged(100, copy.cut_count, [(100, 109)])
    assert progress.passed({("t", 0)}) == progress.passed() == {("t", 0): 120}
    copy.cut_at(105)
    assert progress.passed({("t", 0)}) == {("t", 0): 105}
