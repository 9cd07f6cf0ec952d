"""The segments of a log as a value: a reader keeps its list while the log rolls or deletes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from tallymark.log.segments.segment import Segment


class SegmentList:
    """Segments by ascending base offset, at least one; never changed, only replaced."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def active(self) -> Segment:
        """The one that is appended to."""
        return self._segments[-1]

    @property
    def start_offset(self) -> int:
        return self._bases[0]

    def at(self, offset: int) -> Segment:
        """The segment that holds the offset."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def ended_before(self, offset: int) -> int:
        """How many of the first segments lie wholly before the offset; never the last one."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds the offset and all after it."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def added(self, segment: Segment) -> SegmentList:
        return SegmentList((*self._segments, segment))

    def replaced(self, old: Sequence[Segment], new: Segment) -> SegmentList | None:
        """A list with ``new`` in the place of these adjacent segments; None where they are not all
        there, or the active one is among them."""
        begin = self.ended_before(new.base_offset)
        end = begin + len(old)
        there = self._segments[begin:end]
        if end >= len(self._segments) or any(a is not b for a, b in zip(there, old, strict=True)):
            return None
        return SegmentList((*self._segments[:begin], new, *self._segments[end:]))

    def without_last(self, count: int) -> SegmentList:
        return SegmentList(self._segments[: len(self._segments) - count])

    def without_first(self, count: int) -> SegmentList:
        return SegmentList(self._segments[count:])
