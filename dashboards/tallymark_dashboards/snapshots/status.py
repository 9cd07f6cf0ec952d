"""How a group does with one partition: OK, WARN, STALLED, STOPPED, without a threshold of lag.

Pure. The rules are those of LinkedIn's Burrow
(https://github.com/linkedin/Burrow/wiki/Consumer-Lag-Evaluation-Rules): a sliding window of the
last commits says whether a consumer moves, and whether it catches up. We ask for the committed
offsets instead of reading the log of commits, hence the differences:

* A commit is seen when it changes the offset. So Burrow's STALL (commits that do not move) and STOP
  (no commits) look alike here; a member that owns the partition makes it STALLED, none STOPPED.
* WARN needs a lag that has grown over the window, beside never shrinking within it: with Burrow's
  rule a constant number of records under way is a warning.
* An offset outside the log, and one that moved backwards, are WARN and say so.
* Where too little was seen the status is UNKNOWN, never OK.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from tallymark_audit.model.time_format import duration
from tallymark_dashboards.snapshots.shapes import Status

WINDOW: Final = 10
"""Commits that are remembered, as in Burrow."""
ENOUGH: Final = 4
"""Commits from which on a trend is one."""
QUIET_MS: Final = 60_000
"""A consumer is never called stalled or stopped sooner."""
UNSEEN_MS: Final = 300_000
"""Nor sooner than this while fewer than two commits were seen: it may commit every few minutes."""
LONGEST_MS: Final = 600_000
"""Later than this it is, however seldom it has committed before: an idle topic has few commits."""


class Commit(NamedTuple):
    """An offset, when it was seen first (ms), and the lag then."""

    at: int
    offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group is in a partition now: ``offset`` is the next one it reads, ``start`` and
    ``end`` (excluded) are those of the log; ``owned``: a member consumes the partition."""

    offset: int
    start: int
    end: int
    owned: bool


class Window:
    """The last commits of a group in a partition, 24 bytes each. ``calm_at`` is the last look (ms)
    at which nothing was unread, 0: there was none."""

    __slots__ = ("_numbers", "calm_at")

    def __init__(self) -> None:
        self.calm_at = 0
        self._numbers = array("q")

    @property
    def commits(self) -> list[Commit]:
        """The commits, the newest last."""
        return [Commit(*self._numbers[at : at + 3]) for at in range(0, len(self._numbers), 3)]

    def see(self, at: int, offset: int, lag: int) -> None:
        """What one look has found."""
        if not lag:
            self.calm_at = at
        if not self._numbers or self._numbers[-2] != offset:
            self._numbers.extend((at, offset, lag))
            del self._numbers[: -3 * WINDOW]


def lag_of(offset: int, start: int, end: int) -> int:
    """Messages that are there and were not read."""
    return max(0, end - max(offset, start))


def judge(commits: Sequence[Commit], calm_at: int, here: Position, now: int) -> tuple[Status, str]:
    """The status and why. ``commits`` is the window, the newest last; ``calm_at`` as in
    :class:`Window`."""
    if here.offset > here.end:
        gap = here.offset - here.end
        why = f"its offset is {gap:,} beyond the end of the log: was the topic created again?"
        return Status.WARN, why
    deleted = here.start - here.offset
    lag = lag_of(here.offset, here.start, here.end)
    # What it could not read yet is no reason to call it quiet: an idle topic has no commits.
    quiet = now - max(commits[-1].at, calm_at) if commits else 0
    if lag and commits and quiet > _patience(commits):
        return _not_moving(here, quiet)
    if deleted > 0:
        return Status.WARN, f"{deleted:,} messages were deleted before it has read them"
    if not lag:
        return Status.OK, "everything is read"
    return _of_course(commits)


def _of_course(commits: Sequence[Commit]) -> tuple[Status, str]:
    if any(one.lag == 0 for one in commits):
        return Status.OK, "it had read everything a short while ago"
    if any(after.offset < before.offset for before, after in pairwise(commits)):
        return Status.WARN, "its offset has moved backwards"
    if len(commits) < 2:
        return Status.UNKNOWN, "too few commits were seen yet"
    if len(commits) >= ENOUGH and _grows(commits):
        more = commits[-1].lag - commits[0].lag
        return Status.WARN, f"it reads, but its lag grows: {more:,} more in {len(commits)} commits"
    return Status.OK, "it reads, and its lag does not keep growing"


def _patience(commits: Sequence[Commit]) -> int:
    """Burrow: it has stopped when the last commit is longer ago than the window is long."""
    if len(commits) < 2:
        return UNSEEN_MS
    return min(LONGEST_MS, max(QUIET_MS, commits[-1].at - commits[0].at))


def _not_moving(here: Position, quiet: int) -> tuple[Status, str]:
    text = f"its offset has not moved for {duration(quiet)}, and there are messages to read"
    if here.owned:
        return Status.STALLED, text
    return Status.STOPPED, f"{text}; no member reads this partition"


def _grows(commits: Sequence[Commit]) -> bool:
    never_shrinks = all(after.lag >= before.lag for before, after in pairwise(commits))
    return never_shrinks and commits[-1].lag > commits[0].lag
