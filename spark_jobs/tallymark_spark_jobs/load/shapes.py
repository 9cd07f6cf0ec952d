"""What a load is given, and what became of it. Shapes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallymark_spark_jobs.lake.table import Commit, LakeTable, OffsetRange, PartitionKey
from tallymark_spark_jobs.load.planning import LogState
from tallymark_spark_jobs.load.writing.formats import RAW, RowFormat

if TYPE_CHECKING:
    from tallymark.client.core.security.deployment import ConnectionSettings
    from tallymark_spark_jobs.lake.storage import Storage


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic and its table. ``logs``: the bounds of its partitions, fixed once. ``connection``:
    how tasks reach the cluster."""

    cluster: str
    topic: str
    logs: tuple[LogState, ...]
    table: LakeTable
    storage: Storage
    connection: ConnectionSettings = field(repr=False)
    format: RowFormat = RAW


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How to load. ``run`` is the name of this run in the history of tables
    (:mod:`~tallymark_spark_jobs.load.names`). ``max_rows`` bounds all of the run;
    ``rows_per_commit`` bounds what a crash of the driver throws away."""

    run: str
    window_ms: int
    contents: bool = False
    target_bytes: int = 128 << 20
    late_after_ms: int = 3_600_000
    accept_gap: bool = False
    max_rows: int | None = None
    rows_per_task: int = 2_000_000
    rows_per_commit: int = 50_000_000
    at_least_tasks: int = 1


@dataclass(slots=True)
class TopicResult:
    """What became of one topic. ``lost``: ranges that are in no table and never will be, each with
    the reason. ``problems``: why partitions were left as they are, a line each. ``left``: offsets
    that ``max_rows`` kept out."""

    cluster: str
    topic: str
    location: str
    commits: list[Commit] = field(default_factory=list[Commit])
    files: int = 0
    bytes: int = 0
    lost: list[tuple[OffsetRange, str]] = field(default_factory=list[tuple[OffsetRange, str]])
    problems: dict[PartitionKey, str] = field(default_factory=dict[PartitionKey, str])
    left: int = 0

    @property
    def rows(self) -> int:
        return sum(commit.rows for commit in self.commits)

    @property
    def quarantined(self) -> int:
        return sum(commit.quarantined for commit in self.commits)

    @property
    def late(self) -> int:
        return sum(commit.late for commit in self.commits)

    @property
    def gaps(self) -> int:
        return sum(commit.gaps for commit in self.commits)
