"""What a load did, for people and as JSON. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallymark.shell.counted import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark_spark_jobs.lake.table import OffsetRange
    from tallymark_spark_jobs.load.shapes import TopicResult
    from tallymark_spark_jobs.load.upkeep import Upkeep


class State(enum.IntEnum):
    """The exit code of a load that ran to its end. ``LOADED``: everything up to the planned ends is
    in the tables, or was lost before and is recorded as that. ``UNFINISHED``: offsets are left that
    a person has to look at. ``LEFT``: all is loaded, but something beside it is left for the next
    run: reporting to the audit, joining or sweeping files."""

    LOADED = 0
    UNFINISHED = 3
    LEFT = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run and what became of each topic. ``unreported``: why the audit does not know of a table's
    commits, a line a table."""

    run: str
    as_of: int
    results: tuple[TopicResult, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    unreported: tuple[str, ...] = ()
    upkeep: tuple[Upkeep, ...] = ()

    @property
    def state(self) -> State:
        """See :class:`State`."""
        if any(one.problems for one in self.results):
            return State.UNFINISHED
        left = self.unreported or any(one.problem for one in self.upkeep)
        return State.LEFT if left else State.LOADED


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The whole outcome. Times are ms UTC, ends of ranges are excluded."""
    return {
        "outcome": outcome.state.name.lower(),
        "exit": int(outcome.state),
        "run": outcome.run,
        "as_of": outcome.as_of,
        "rows": sum(one.rows for one in outcome.results),
        "tables": [_table(one) for one in outcome.results],
        "unreported": list(outcome.unreported),
        "upkeep": [one.to_json() for one in outcome.upkeep],
        "seconds": {name: round(each, 3) for name, each in outcome.seconds.items()},
    }


def _table(one: TopicResult) -> dict[str, Any]:
    return {
        "cluster": one.cluster,
        "topic": one.topic,
        "location": one.location,
        "versions": [commit.version for commit in one.commits],
        "rows": one.rows,
        "files": one.files,
        "bytes": one.bytes,
        "late": one.late,
        "quarantined": one.quarantined,
        "gaps": one.gaps,
        "lost": [_range(gap) | {"why": why} for gap, why in one.lost],
        "left": one.left,
        "problems": list(one.problems.values()),
    }


def _range(one: OffsetRange) -> dict[str, Any]:
    return {"partition": one.key.partition, "start": one.start, "end": one.end}


def lines_of(outcome: Outcome) -> list[str]:
    """What a person reads: a line a table that has something new, the problems, the sum."""
    found: list[str] = []
    for one in outcome.results:
        if one.commits:
            found.append(f"{one.cluster} {one.topic}: {_said(one)}")
        for gap, why in one.lost:
            found.append(f"  LOST {gap}: {why}")
        found += [f"  NOT LOADED {text}" for text in one.problems.values()]
    found += [f"NOT REPORTED {text}" for text in outcome.unreported]
    found += [line for one in outcome.upkeep if (line := one.line())]
    loaded = [one for one in outcome.results if one.commits]
    rows = sum(one.rows for one in outcome.results)
    found.append(
        f"{rows:,} rows in {len(loaded)} of {counted(len(outcome.results), 'table')}"
        if loaded
        else f"nothing new in {counted(len(outcome.results), 'table')}"
    )
    return found


def _said(one: TopicResult) -> str:
    parts = [f"{one.rows:,} rows", f"{one.files} files", f"{one.bytes / 1e6:.1f} MB"]
    named: Sequence[tuple[int, str]] = (
        (one.late, "late"),
        (one.quarantined, "in quarantine"),
        (one.gaps, "offsets without a record"),
        (one.left, "offsets left for the next load"),
    )
    parts += [f"{count:,} {name}" for count, name in named if count]
    versions = [commit.version for commit in one.commits]
    return f"version {versions[-1]}: " + ", ".join(parts)
