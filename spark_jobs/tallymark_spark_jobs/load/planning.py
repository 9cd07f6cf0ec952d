"""What a load reads, decided on the driver before any task starts. Pure.

The next offset of a partition is a part of the table (:mod:`tallymark_spark_jobs.lake.table`); the
end is asked of the broker once. Between the two stands everything that is loaded: nothing is passed
over in silence. What retention has deleted before it was loaded is lost, and a plan holds it only
where a person has accepted that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tallymark_spark_jobs.lake.table import OffsetRange, PartitionKey


@dataclass(frozen=True, slots=True)
class LogState:
    """One partition as its broker reported it, once: the first offset there is, and the first that
    may not be read yet (with ``read_committed`` the last stable offset). ``begin`` is where a
    partition starts that the table does not know (None: at ``earliest``); what is gone behind it is
    lost."""

    key: PartitionKey
    earliest: int
    end: int
    leader_epoch: int = -1
    begin: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a partition is not loaded: a line for people, and the offsets that it is about."""

    range: OffsetRange
    text: str


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Ranges to load, at most one a partition. ``lost`` are the beginnings of such ranges that no
    longer exist; ``problems`` are partitions that are left as they are; ``left`` counts offsets
    that :func:`capped` took out."""

    ranges: tuple[OffsetRange, ...] = ()
    lost: tuple[OffsetRange, ...] = ()
    problems: tuple[Problem, ...] = ()
    left: int = 0

    @property
    def offsets(self) -> int:
        return sum(one.end - one.start for one in self.ranges)


def plan_load(
    logs: Iterable[LogState],
    loaded: Mapping[PartitionKey, int],
    *,
    accept_gap: bool = False,
) -> LoadPlan:
    """The ranges from where the table ends (``loaded``) to where the logs end. ``accept_gap`` takes
    what was deleted into the plan as lost; otherwise its partition is a problem."""
    ranges: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    problems: list[Problem] = []
    for log in logs:
        key, start = log.key, loaded.get(log.key)
        if start is None:
            start = log.earliest if log.begin is None else log.begin
        if start > log.end:
            problems.append(_cut(log, start))
            continue
        if start < log.earliest:
            gap = OffsetRange(key, start, log.earliest)
            if not accept_gap:
                problems.append(_gone(gap))
                continue
            lost.append(gap)
        if start < max(log.end, log.earliest):
            ranges.append(OffsetRange(key, start, max(log.end, log.earliest)))
    return LoadPlan(tuple(ranges), tuple(lost), tuple(problems))


def capped(plan: LoadPlan, most: int | None) -> LoadPlan:
    """The plan with at most so many offsets (None: all), the beginnings of its ranges; the short
    ones are kept whole."""
    if most is None or plan.offsets <= most:
        return plan
    allowed: dict[PartitionKey, int] = {}
    room = max(0, most)
    for at, one in enumerate(sorted(plan.ranges, key=lambda one: one.end - one.start)):
        allowed[one.key] = min(one.end - one.start, room // (len(plan.ranges) - at))
        room -= allowed[one.key]
    cut = [one._replace(end=one.start + allowed[one.key]) for one in plan.ranges]
    kept = LoadPlan(tuple(one for one in cut if one.start < one.end))
    ends = {one.key: one.end for one in kept.ranges}
    lost = (gap._replace(end=min(gap.end, ends[gap.key])) for gap in plan.lost if gap.key in ends)
    return replace(kept, lost=tuple(lost), problems=plan.problems, left=plan.offsets - kept.offsets)


def readable(plan: LoadPlan) -> tuple[OffsetRange, ...]:
    """The ranges of the plan without what is lost: what tasks have to read."""
    lost = {gap.key: gap.end for gap in plan.lost}
    ranges = (one._replace(start=lost.get(one.key, one.start)) for one in plan.ranges)
    return tuple(one for one in ranges if one.start < one.end)


def shares(ranges: Sequence[OffsetRange], rows: int, at_least: int = 1) -> list[OffsetRange]:
    """The same offsets in ranges of at most ``rows``, and so many that ``at_least`` tasks have
    something to do where there is enough."""
    total = sum(one.end - one.start for one in ranges)
    most = max(1, min(rows, max(LEAST_SHARE, -(-total // max(1, at_least)))))
    return [part for one in ranges for part in _parts(one, most)]


LEAST_SHARE = 20_000
"""Fewer offsets are not worth a task of their own, nor a file."""


def _parts(one: OffsetRange, most: int) -> list[OffsetRange]:
    size = one.end - one.start
    count = -(-size // most)
    cuts = [one.start + size * at // count for at in range(count + 1)]
    return [OffsetRange(one.key, first, last) for first, last in pairwise(cuts)]


def _gone(gap: OffsetRange) -> Problem:
    return Problem(
        gap,
        f"{gap.key}: {gap.end - gap.start} offsets from {gap.start} to {gap.end - 1} were deleted"
        " before they were loaded (retention): they are lost to the lake",
    )


def _cut(log: LogState, start: int) -> Problem:
    return Problem(
        OffsetRange(log.key, log.end, start),
        f"{log.key}: the table holds it up to offset {start - 1}, but its log ends at"
        f" {log.end - 1}: the log was cut. What is appended there now would be passed over",
    )
