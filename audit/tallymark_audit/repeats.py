"""How often sequences were seen beyond once, as ranges.

*Levels* are nested sets: the first holds what was seen at least twice, the next what was seen at
least three times, and so on. Sums and differences of how often each sequence was seen are then set
arithmetic, and a consumer that reads a million messages again costs one range::

    seen   4  5  5  6  6  6        levels   {5, 6}, {6}        3 further copies

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from tallymark_audit.ranges import EMPTY, RangeSet

Levels = tuple[RangeSet, ...]
"""Each within the one before; none is empty."""


def copies_in(levels: Iterable[RangeSet]) -> int:
    """How many further copies there are."""
    return sum(level.size for level in levels)


def put(levels: Sequence[RangeSet], more: RangeSet) -> Levels:
    """The levels after each sequence of ``more`` was seen another time."""
    found: list[RangeSet] = []
    for level in levels:
        found.append(level | more)
        more = more & level
    return tuple(found) + ((more,) if more else ())


def together(one: Sequence[RangeSet], other: Iterable[RangeSet]) -> Levels:
    """The levels of what both have seen."""
    found = tuple(one)
    for level in other:
        found = put(found, level)
    return found


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
