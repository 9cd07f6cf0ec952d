"""How many of Spark's tasks have ended, of the jobs that began after a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counted: TypeAlias = Callable[[], tuple[int, int]]
"""Each call gives (ended, all) tasks since it was made."""

Tasks: TypeAlias = Callable[[], Counted]
"""Begins to count."""

NO_TASKS: Final[Tasks] = lambda: lambda: (0, 0)  # noqa: E731
"""Where there is no Spark, or one far away that reports nothing of its tasks (Spark Connect)."""


def tasks_of(spark: SparkSession) -> Tasks:
    """What counts the tasks of ``spark``. A stage that adaptive execution adds later makes ``all``
    larger; stages that end between two calls are counted if their job is still known."""
    from pyspark.errors import PySparkException

    try:
        tracker = spark.sparkContext.statusTracker()
    except PySparkException:  # Spark Connect has no context
        return NO_TASKS

    def begin() -> Counted:
        before = set(tracker.getActiveJobsIds())
        stages: set[int] = set()

        def counted() -> tuple[int, int]:
            for job in set(tracker.getActiveJobsIds()) - before:
                found = tracker.getJobInfo(job)
                stages.update(found.stageIds if found is not None else ())
            known = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
            return sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)

        return counted

    return begin
