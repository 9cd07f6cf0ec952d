"""How often sequences were counted more than once, as ranges.

*Levels* are nested sets: the first holds the sequences seen at least twice, the next those seen at
least three times, and so on. Sums and differences of how often each sequence was seen are then set
arithmetic, and a consumer that reads a million messages again costs one range::

    seen   4  5  5  6  6  6        levels   {5, 6}, {6}        3 further copies

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

from tallymark_audit.model.ranges import EMPTY, GrowingRanges, RangeSet

Levels = tuple[RangeSet, ...]
"""Each within the one before; none is empty."""
MAX_LEVELS: Final = 100
"""What was seen more often than that is counted, and not named: a record that an application tries
for ever would cost more each time."""


class GrowingLevels:
    """:data:`Levels` that are being filled; adding takes as long as in so many growing ranges."""

    __slots__ = ("_levels",)

    def __init__(self, levels: Iterable[RangeSet] = ()) -> None:
        self._levels = [GrowingRanges(level) for level in levels]

    def __len__(self) -> int:
        """How many ranges it takes."""
        return sum(map(len, self._levels))

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return len(self._levels)

    def add(self, more: RangeSet) -> None:
        """Each sequence of ``more`` was seen another time."""
        at = 0
        while more:
            if at == len(self._levels):
                self._levels.append(GrowingRanges())
            more = _put_in(self._levels[at], more)
            at += 1

    def frozen(self) -> Levels:
        """The levels as they are now."""
        return tuple(level.frozen() for level in self._levels)


def copies_in(levels: Iterable[RangeSet]) -> int:
    """How many further copies there are."""
    return sum(level.size for level in levels)


def sequences_of(levels: Iterable[RangeSet]) -> RangeSet:
    """All sequences that were seen beyond once, however often."""
    return RangeSet(pair for level in levels for pair in level)


def together(one: Iterable[RangeSet], other: Iterable[RangeSet]) -> Levels:
    """The levels of what both have seen."""
    found = GrowingLevels(one)
    for level in other:
        found.add(level)
    return found.frozen()


def _put_in(level: GrowingRanges, more: RangeSet) -> RangeSet:
    """Returns those that were in it before."""
    there: list[tuple[int, int]] = []
    for first, last in more:
        there += level.among(first, last)
        level.add(first, last)
    return RangeSet(there)


def levels_of(sequences: Iterable[int]) -> Levels:
    """The levels of further copies that are named one by one."""
    many: list[list[int]] = []
    times: dict[int, int] = {}
    for sequence in sequences:
        level = times[sequence] = times.get(sequence, -1) + 1
        if level == len(many):
            many.append([])
        many[level].append(sequence)
    return tuple(RangeSet.of(level) for level in many)


def levels_to_json(levels: Iterable[RangeSet]) -> list[list[int]]:
    """Each level as flat ranges: the form of events and store."""
    return [level.to_list() for level in levels]


def levels_from_json(raw: Iterable[Sequence[int]]) -> Levels:
    """The inverse of :func:`levels_to_json`. ValueError: a list that is not of ranges."""
    return tuple(level for flat in raw if (level := RangeSet.from_list(flat)))


def beyond(levels: Iterable[RangeSet], given: Iterable[RangeSet]) -> Levels:
    """Those that exceed what was ``given``, sequence by sequence; the levels need not be nested
    any more, but there are as many further copies of each sequence as levels it is in."""
    pairs = zip_longest(levels, given, fillvalue=EMPTY)
    return tuple(left for mine, theirs in pairs if (left := mine - theirs))
