"""Sets of sequence numbers kept as ranges: the arithmetic every verdict is made of.

A healthy cell is one range however many messages it holds, so the size of a set grows with what is
*wrong*, not with the number of messages. A :class:`RangeSet` is immutable; every operation is
linear in the number of ranges, and adding at the end, which is what a healthy stream does, touches
the last range only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
"""First and last member, both included."""


class RangeSet:
    """A set of integers as sorted, disjoint, non-adjacent inclusive ranges.

    Iterating yields the ranges ``(first, last)``; :attr:`size` is the number of integers. There is
    no ``len()`` on purpose: ``list(set)`` would take it as a hint and reserve a slot per integer.
    """

    __slots__ = ("ranges",)

    ranges: tuple[Range, ...]
    """The ranges, sorted, with at least one integer missing between any two."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        """From ``(first, last)`` pairs in any order. ValueError: one ends before it starts."""
        self.ranges = _normal(ranges)

    @classmethod
    def of(cls, integers: Iterable[int]) -> RangeSet:
        """The set of these integers."""
        return cls((number, number) for number in integers)

    @classmethod
    def single(cls, first: int, last: int) -> RangeSet:
        """The set of one range. ValueError: last < first."""
        return cls(((first, last),))

    @classmethod
    def from_list(cls, flat: Sequence[int]) -> RangeSet:
        """The inverse of :meth:`to_list`. ValueError: odd length, or a range that ends before it
        starts."""
        if not flat:
            return EMPTY
        if len(flat) % 2:
            raise ValueError(f"a flat list of ranges has an even length, not {len(flat)}")
        return cls(zip(flat[::2], flat[1::2], strict=True))

    def to_list(self) -> list[int]:
        """The ranges flat: ``[first, last, first, last, ...]``, the form of events and store."""
        return [bound for pair in self.ranges for bound in pair]

    @property
    def size(self) -> int:
        """How many integers the set holds."""
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def first(self) -> int:
        """The smallest integer. IndexError when empty."""
        return self.ranges[0][0]

    @property
    def last(self) -> int:
        """The largest integer. IndexError when empty."""
        return self.ranges[-1][1]

    def add(self, first: int, last: int) -> RangeSet:
        """This set with ``first..last`` in it."""
        if last < first:
            raise ValueError(f"a range cannot end before it starts: {first}..{last}")
        mine = self.ranges
        if mine:
            low, high = mine[-1]
            if first > high + 1:
                return _made((*mine, (first, last)))
            if first >= low:
                return self if last <= high else _made((*mine[:-1], (low, last)))
        return _made(_normal((*mine, (first, last))))

    def __or__(self, other: RangeSet) -> RangeSet:
        if not other.ranges:
            return self
        if not self.ranges:
            return other
        return _made(_normal((*self.ranges, *other.ranges)))

    def __and__(self, other: RangeSet) -> RangeSet:
        if not other.ranges or not self.ranges:
            return EMPTY
        return _made(tuple(_common(self.ranges, other.ranges)))

    def __sub__(self, other: RangeSet) -> RangeSet:
        if not other.ranges or not self.ranges:
            return self
        return _made(tuple(_without(self.ranges, other.ranges)))

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.ranges, number, key=lambda pair: pair[0]) - 1
        return at >= 0 and number <= self.ranges[at][1]

    def covers(self, first: int, last: int) -> bool:
        """Whether all of ``first..last`` are in it."""
        at = bisect_right(self.ranges, first, key=lambda pair: pair[0]) - 1
        return at >= 0 and last <= self.ranges[at][1]

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"RangeSet({self})"

    def __str__(self) -> str:
        """For people: ``0-99, 120, 130-131``."""
        return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in self.ranges)


class GrowingRanges:
    """A :class:`RangeSet` that is being filled: adding at the end, or to the last range, takes the
    same time however many ranges there are; adding elsewhere takes a search and moves the ranges
    behind."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: RangeSet | None = None) -> None:
        self._ranges: list[Range] = list(ranges.ranges) if ranges else []

    def __len__(self) -> int:
        """How many ranges it takes."""
        return len(self._ranges)

    def add(self, first: int, last: int) -> bool:
        """Put ``first..last`` in; whether it takes more ranges now. ValueError: last < first."""
        ranges = self._ranges
        if last < first:
            raise ValueError(f"a range cannot end before it starts: {first}..{last}")
        if not ranges or first > ranges[-1][1] + 1:
            ranges.append((first, last))
            return True
        low, high = ranges[-1]
        if first >= low:
            if last > high:
                ranges[-1] = (low, last)
            return False
        return self._insert(first, last)

    def among(self, first: int, last: int) -> RangeSet:
        """Those of ``first..last`` that are in it."""
        ranges = self._ranges
        if not ranges or first > ranges[-1][1]:
            return EMPTY
        at = bisect_left(ranges, first, key=lambda pair: pair[1])
        found: list[Range] = []
        while at < len(ranges) and ranges[at][0] <= last:
            found.append((max(first, ranges[at][0]), min(last, ranges[at][1])))
            at += 1
        return _made(tuple(found))

    def frozen(self) -> RangeSet:
        """The set as it is now."""
        return _made(tuple(self._ranges))

    def _insert(self, first: int, last: int) -> bool:
        ranges = self._ranges
        before = len(ranges)
        start = stop = bisect_left(ranges, first - 1, key=lambda pair: pair[1])
        while stop < before and ranges[stop][0] <= last + 1:
            first, last = min(first, ranges[stop][0]), max(last, ranges[stop][1])
            stop += 1
        ranges[start:stop] = [(first, last)]
        return len(ranges) > before


def _made(ranges: tuple[Range, ...]) -> RangeSet:
    """A set of ranges that are known to be normal: skips the sort."""
    made = RangeSet.__new__(RangeSet)
    made.ranges = ranges
    return made


def _normal(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            raise ValueError(f"a range cannot end before it starts: {first}..{last}")
        if merged and first <= merged[-1][1] + 1:
            low, high = merged[-1]
            merged[-1] = (low, max(high, last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _common(ours: Sequence[Range], theirs: Sequence[Range]) -> Iterator[Range]:
    mine = other = 0
    while mine < len(ours) and other < len(theirs):
        first = max(ours[mine][0], theirs[other][0])
        last = min(ours[mine][1], theirs[other][1])
        if first <= last:
            yield first, last
        if ours[mine][1] < theirs[other][1]:
            mine += 1
        else:
            other += 1


def _without(ours: Sequence[Range], theirs: Sequence[Range]) -> Iterator[Range]:
    at = 0
    for first, last in ours:
        while at < len(theirs) and theirs[at][1] < first:
            at += 1
        look = at
        while look < len(theirs) and theirs[look][0] <= last:
            if theirs[look][0] > first:
                yield first, theirs[look][0] - 1
            first = max(first, theirs[look][1] + 1)
            look += 1
        if first <= last:
            yield first, last


EMPTY = RangeSet()
"""The empty set."""
