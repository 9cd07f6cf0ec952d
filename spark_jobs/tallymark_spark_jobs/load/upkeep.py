"""After a load: small files are joined, and files that no commit names are taken away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.compaction import Compacted, compact
from tallymark_spark_jobs.lake.sweep import Swept, sweep

if TYPE_CHECKING:
    from tallymark_spark_jobs.engine.progress import Steps
    from tallymark_spark_jobs.lake.committing import CommittedTable
    from tallymark_spark_jobs.load.shapes import LoadSettings, TopicLoad


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to one table; ``problem``: why not all of it, in one line."""

    cluster: str
    topic: str
    compacted: Compacted | None = None
    swept: Swept | None = None
    problem: str = ""

    def line(self) -> str:
        """For people; ``""`` where there was nothing to do."""
        parts: list[str] = []
        if self.compacted is not None and self.compacted.files_before:
            one = self.compacted
            parts.append(f"{one.files_before} files joined to {one.files_after}")
        if self.swept is not None and self.swept.files:
            parts.append(
                f"{len(self.swept.files)} files without a commit deleted "
                f"({self.swept.bytes / 1e6:.1f} MB)"
            )
        if self.problem:
            parts.append(f"NOT FINISHED: {self.problem}")
        return f"{self.cluster} {self.topic}: {', '.join(parts)}" if parts else ""

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        told: dict[str, Any] = {"cluster": self.cluster, "topic": self.topic}
        if self.compacted is not None:
            one = self.compacted
            told["files_before"], told["files_after"] = one.files_before, one.files_after
        if self.swept is not None:
            told["deleted"] = list(self.swept.files)
        return told | {"problem": self.problem}


def keep_up(
    loads: Iterable[TopicLoad], settings: LoadSettings, steps: Steps, *, joins: bool, sweeps: bool
) -> tuple[Upkeep, ...]:
    """Join and sweep the tables of these topics. It may run beside loads; a table's problem holds
    up no other table."""
    if not (joins or sweeps):
        return ()
    with steps.step("upkeep", "joining and sweeping files"):
        return tuple(_one(load, settings, joins, sweeps) for load in loads)


def _one(load: TopicLoad, settings: LoadSettings, joins: bool, sweeps: bool) -> Upkeep:
    table = cast("CommittedTable[Any]", load.table)
    compacted: Compacted | None = None
    swept: Swept | None = None
    try:
        if joins:
            compacted = compact(table, settings.target_bytes, job=f"compact {settings.run}")
        if sweeps:
            swept = sweep(table)
    except UserError as error:
        why = " ".join(str(error).split())
        return Upkeep(load.cluster, load.topic, compacted, swept, why)
    return Upkeep(load.cluster, load.topic, compacted, swept)
