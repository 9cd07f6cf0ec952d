"""Limits on what a hostile or broken producer can make the collector keep.

A record is counted in the window of its stamp, however wrong the clock was, since its producer
claims it there. But a stream of random timestamps would open a window each, a row each. So records
with implausible stamps open only so many windows a minute in a partition; the rest are counted in
one window of their own, :func:`overflow_window`, and reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.store.counted.incidents import Incident

MOST_WINDOWS: Final = 100
"""Windows of implausible stamps that a partition may open in a minute."""
MINUTE_MS: Final = 60_000
TOO_MANY_WINDOWS: Final = "too-many-windows"


def overflow_window(window_ms: int) -> int:
    """The window of records that would have opened too many. It lies before the window of records
    without a timestamp, ``-window_ms``, so it never mixes with real time."""
    return -2 * window_ms


@dataclass(slots=True)
class WindowBound:
    """Remembers the implausible windows that each partition opened of late."""

    window_ms: int
    _since: int = 0
    _open: dict[TopicPartition, set[int]] = field(default_factory=dict[TopicPartition, set[int]])

    def apply(self, runs: Iterable[SeenRun], place: TopicPartition, now: int) -> list[Incident]:
        """Move the runs beyond the bound; what there is to report of it."""
        if now - self._since >= MINUTE_MS:
            self._since, self._open = now, {}
        moved = [run for run in runs if run.skewed == run.count and not self._may_open(run, place)]
        if not moved:
            return []
        for run in moved:
            run.key = run.key._replace(window=overflow_window(self.window_ms))
        reason = (
            f"records whose timestamps are far off opened more than {MOST_WINDOWS} windows within "
            f"a minute; the others were counted in window {overflow_window(self.window_ms)}"
        )
        start, end = min(run.offset for run in moved), max(run.last_offset for run in moved) + 1
        count = sum(run.count for run in moved)
        return [Incident(TOO_MANY_WINDOWS, reason, *place, start, end, count)]

    def _may_open(self, run: SeenRun, place: TopicPartition) -> bool:
        known = self._open.setdefault(place, set())
        if len(known) < MOST_WINDOWS:
            known.add(run.key.window)
        return run.key.window in known
