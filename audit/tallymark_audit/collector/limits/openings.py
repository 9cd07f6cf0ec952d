"""How many new cells a partition may open: a limit for forged stamps.

To forge a stamp takes a few bytes. It costs the audit a cell: a row in the store that is judged,
shown and kept. So cells have prices, and each partition has a budget. Pure::

    a run that has reported, or no stamp; a window of about now      0
    the same, in a window far from now and from the rest of the log  1
    a run without a report yet                                       10

A minute's budget is ``most`` runs without a report; what is spent is refunded at the same rate, so
after a burst of that size there are ``most`` more each minute, and no more than :data:`HOUR` times
as many an hour. What a partition cannot pay for is counted in one cell of the window
(:data:`tallymark_audit.model.cells.OVERFLOW`), by number; if its window is far from now, in that of
:func:`.window_bound.overflow_window`, since forged stamps can name any number of such windows.

The spent part is kept in the store with the counts (:mod:`tallymark_audit.store.counted.openings`):
a restart does not refill a budget.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from tallymark_audit.collector.limits.window_bound import overflow_window
from tallymark_audit.model.cells import CellKey, RunName, overflow_key, window_of
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.store.counted.openings import Spent

MOST_NEW_RUNS: Final = 2_000
"""Where the settings do not say."""
UNREPORTED: Final = 10
"""The price of a cell of a run without a report."""
HOUR: Final = 5
"""In an hour as many as in so many minutes."""
CURRENT: Final = 5
"""Windows before and after now, or the middle of what was read, that are about now."""
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
TOO_MANY_RUNS: Final = "too-many-runs"
"""The kind of incidents about it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a partition may open. ``most``: runs a minute without a report; 0: no limit."""

    most: int
    window_ms: int

    def left(self, spent: Spent, now: int) -> int:
        """The units that are left at ``now`` (ms)."""
        spent = self.at(spent, now)
        units = self.most * UNREPORTED
        by_minute = units - -(-spent.minute // MINUTE_MS)
        by_hour = HOUR * units - -(-spent.hour // HOUR_MS)
        return max(0, min(by_minute, by_hour))

    def at(self, spent: Spent, now: int) -> Spent:
        """What is still spent at ``now`` (ms). A clock that went back gives nothing back."""
        passed, units = max(0, now - spent.at), self.most * UNREPORTED
        return replace(
            spent,
            minute=max(0, spent.minute - passed * units),
            hour=max(0, spent.hour - passed * units * HOUR),
            at=now,
        )

    def spend(self, spent: Spent, units: int, now: int) -> Spent:
        """With so many units spent at ``now`` (ms)."""
        spent = self.at(spent, now)
        return replace(
            spent,
            minute=spent.minute + units * MINUTE_MS,
            hour=spent.hour + units * HOUR_MS,
        )

    def is_current(self, window: int, head: int, now: int) -> bool:
        """Whether the window (start, ms) is about ``now``, or about ``head`` (ms), which is the
        time of what is being read. What is in a window before all time is in one of two."""
        reach = CURRENT * self.window_ms
        here = (window_of(at, self.window_ms) for at in (head, now))
        return window < 0 or any(abs(window - one) <= reach for one in here)


def head_of(runs: Iterable[SeenRun]) -> int:
    """The time (ms) of the record in the middle, by time: few records of another time do not
    move it."""
    times = sorted((run.max_timestamp, run.count) for run in runs)
    half = sum(count for _, count in times) / 2
    for at, count in times:
        half -= count
        if half <= 0:
            return at
    return -1


@dataclass(frozen=True, slots=True)
class Admitted:
    """``refused``: the new cells that are not opened, with the cell that their records go into."""

    refused: dict[CellKey, CellKey]
    spent: Spent


def admit(
    budget: Budget,
    spent: Spent,
    new: Iterable[CellKey],
    reported: Collection[RunName],
    place: tuple[str, int],
    head: int,
    now: int,
) -> Admitted:
    """Which of the ``new`` cells, in the order of the log, a partition opens. ``reported``: the
    runs of theirs that have reported; ``head``: see :func:`head_of`; ``now`` in ms."""
    left, refused = budget.left(spent, now), dict[CellKey, CellKey]()
    start = left
    for key in new:
        if key.overflow:
            continue
        current = budget.is_current(key.window, head, now)
        known = not key.stamped or key.run in reported
        price = (0 if current else 1) if known else UNREPORTED
        if price <= left:
            left -= price
            continue
        window = key.window if current else overflow_window(budget.window_ms)
        refused[key] = overflow_key(*place, window)
    return Admitted(refused, budget.spend(spent, start - left, now))
