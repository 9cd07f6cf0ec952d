"""Numbers over time in bounded memory, and what the course of a log's end says about delays. Pure.

A consumer's lag in time is the age of the first record that it has not read. The course of the end
of the log says when that record came: between the last look at which the end was at or before it,
and the first look at which it was behind it. kafka-lag-exporter estimates it in the same way
(https://github.com/seglo/kafka-lag-exporter, "interpolation table").
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from tallymark_dashboards.snapshots.shapes import Delay

MOST: Final = 120
"""Samples of one course. At one look in 10 s, the newest 10 minutes are kept in full; older samples
are thinned out, so that a course reaches back for hours or days."""


class Course:
    """Samples ``(time, values...)``, ascending in time, at most ``most``. When it is full, every
    second one of the older half goes. Eight bytes a number."""

    __slots__ = ("_columns", "_most")

    def __init__(self, values: int = 1, most: int = MOST) -> None:
        self._most = most
        self._columns = [array("q") for _ in range(1 + values)]

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return zip(*self._columns, strict=True)

    def add(self, at: int, *values: int) -> None:
        """A sample. One that is not later than the last one replaces it. Where the values stay the
        same, only the first and the last sample are kept."""
        new = (at, *values)
        times, size = self._columns[0], len(self)
        if size and at <= times[-1]:
            new = (times[-1], *values)
            self._drop(size - 1)
        elif size > 1 and self._same(size - 2, values) and self._same(size - 1, values):
            self._drop(size - 1)
        for column, value in zip(self._columns, new, strict=True):
            column.append(value)
        if len(self) > self._most:
            self._thin()

    def clear(self) -> None:
        """Forget all samples."""
        for column in self._columns:
            del column[:]

    def last(self) -> tuple[int, ...]:
        """The newest sample. IndexError when there is none."""
        return tuple(column[-1] for column in self._columns)

    def _same(self, index: int, values: tuple[int, ...]) -> bool:
        stored = self._columns[1:]
        return all(one[index] == value for one, value in zip(stored, values, strict=True))

    def _drop(self, index: int) -> None:
        for column in self._columns:
            del column[index]

    def _thin(self) -> None:
        half = len(self) // 2
        for column in self._columns:  # the oldest one stays: it is how far the course reaches back
            column[:half] = column[:half:2]


def follow(ends: Course, at: int, end: int) -> None:
    """Note the end of a log at a time. An end before the last one is another log (the topic was
    created again, or cut): what was known of the old one goes."""
    if len(ends) and end < ends.last()[1]:
        ends.clear()
    ends.add(at, end)


def delay(ends: Course, offset: int, now: int) -> Delay | None:
    """The age of the record at ``offset``, the first one that was not read, by the course of the
    log's end; 0 where nothing is unread, None where nothing is known."""
    before: tuple[int, ...] | None = None
    for sample in ends:
        at, end = sample
        if end > offset:
            if before is None:
                return Delay(max(0, now - at), least=True)
            since, start = before
            came = since + (at - since) * (offset - start + 1) // (end - start)
            return Delay(max(0, now - came))
        before = sample
    return None if before is None else Delay(0)
