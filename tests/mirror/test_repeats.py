"""What a kill may leave there twice is counted, and kept below a setting."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.mirror.copying.duplicate_bound import DuplicateBound
from tallymark.mirror.progress import CopyProgress, PartitionCopy

OURS = {("clicks", 0), ("clicks", 1)}


def test_a_full_count_waits_for_what_is_stored() -> None:
    duplicates = DuplicateBound(100)
    assert duplicates.may_send(100)
    duplicates.sent(24)
    assert not duplicates.is_due
    duplicates.sent(1)
    assert duplicates.is_due, "a quarter has come together"
    assert duplicates.may_send(75)
    assert not duplicates.may_send(76)
    duplicates.stored(5)
    assert (duplicates.count, duplicates.room, duplicates.is_due) == (5, 95, False)


def test_a_batch_beyond_all_bounds_goes_alone() -> None:
    duplicates = DuplicateBound(10)
    assert duplicates.may_send(5000)
    duplicates.sent(5000)
    assert not duplicates.may_send(1)
    duplicates.stored(0)
    assert duplicates.may_send(1)


def test_storing_that_fails_is_not_tried_for_every_batch() -> None:
    duplicates = DuplicateBound(100)
    duplicates.sent(40)
    duplicates.stored(40)  # ZooKeeper was away
    duplicates.sent(1)
    assert not duplicates.is_due


class World:
    """Two partitions of a source, a target, and a mirror between them that may be killed."""

    def __init__(self, most: int) -> None:
        self.duplicates = DuplicateBound(most)
        self.logs = dict.fromkeys(sorted(OURS), 0)
        """How many offsets each source partition has: each batch skips one."""
        self.stored = dict.fromkeys(self.logs, 0)
        self.begin()

    def begin(self) -> None:
        self.progress = CopyProgress()
        self.copies = {at: self.progress.begin(at, self.stored[at]) for at in self.logs}
        self.sent: dict[tuple[str, int], list[int]] = {at: [] for at in self.logs}
        self.flying: deque[tuple[PartitionCopy, int, int]] = deque()
        self.duplicates.stored(0)

    def send(self, which: int, records: int) -> None:
        at = sorted(OURS)[which]
        if self.duplicates.may_send(records):
            copy, first = self.copies[at], self.copies[at].next
            copy.sent(first, 0, 0, first + records + 1, records)  # one offset is a hole
            self.duplicates.sent(records)
            self.sent[at] += range(first, first + records)
            self.flying.append((copy, first, copy.cut_count))

    def acknowledge(self, which: int) -> None:
        if self.flying:
            self.flying.rotate(-which)
            self.flying[0][0].acknowledged(*self.flying.popleft()[1:])

    def store(self, told: bool) -> None:
        offsets = self.progress.to_store(OURS)
        self.stored.update(offsets)
        if told:
            self.progress.stored(offsets)
        self.duplicates.stored(self.progress.unstored(OURS))

    def again(self) -> int:
        """What a kill now would repeat."""
        return sum(at >= self.stored[place] for place, sent in self.sent.items() for at in sent)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 30)),
        st.tuples(st.just("acknowledge"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("store"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(st.integers(1, 60), ACTIONS)
def test_a_kill_at_any_moment_repeats_no_more(
    most: int, actions: list[tuple[str, int, int]]
) -> None:
    world = World(most)
    for name, which, records in actions:
        match name:
            case "send":
                world.send(which, records)
            case "acknowledge":
                world.acknowledge(which)
            case "store":
                world.store(told=which > 0)
            case _:
                world.begin()
        assert world.again() <= world.duplicates.count <= max(most, 30)
    while world.flying:
        world.acknowledge(0)
    world.store(told=True)
    assert (world.again(), world.duplicates.count) == (0, 0), "and nothing stays counted"


def test_what_the_source_has_cut_off_cannot_come_again() -> None:
    progress = CopyProgress()
    copy = progress.begin(("clicks", 0), 0)
    copy.sent(0, 0, 0, 10, 10)
    copy.sent(10, 0, 0, 20, 10)
    copy.cut_at(10)
    copy.sent(10, 1, 0, 12, 2)
    assert progress.unstored(OURS) == 12
    assert progress.unstored([]) == 0, "somebody else's"
