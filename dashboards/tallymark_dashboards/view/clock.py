"""One axis of time for all strips and charts of a page: cells of equal length, ends that are
labelled. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
STEPS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)
"""Lengths that people read on a clock, ms."""
MOST_CELLS: Final = 24
"""Cells of 24 px fill half of a page of 1280 px."""


@dataclass(frozen=True, slots=True)
class Clock:
    """From ``start`` to ``end`` (ms, excluded) in cells of ``step`` ms, which begin at multiples of
    it."""

    start: int
    end: int
    step: int

    def __len__(self) -> int:
        return (self.end - self.start) // self.step

    def __iter__(self) -> Iterator[int]:
        """The start of each cell (ms)."""
        return iter(range(self.start, self.end, self.step))


def clock_of(start: int, end: int, window_ms: int, most: int = MOST_CELLS) -> Clock:
    """The clock that covers ``start`` to ``end`` (ms, excluded) in at most ``most`` cells, one
    more where the ends do not lie between cells. Every cell holds whole windows, so no window is
    drawn in two."""
    length = max(window_ms, end - start)
    fitting = (step for step in STEPS if step % window_ms == 0 and length <= most * step)
    longest = max(STEPS[-1] // window_ms, 1) * window_ms
    step = next(fitting, longest * -(-length // (most * longest)))
    first = start - start % step
    return Clock(first, max(first + step, -(-end // step) * step), step)
