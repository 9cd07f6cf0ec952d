"""Landing as tasks of Spark: one task a span.

A task of an RDD is one call in a Python worker, with Spark's retries and without the two further
processes that a data source is planned by. What it returns is small; rows never pass through Java.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.load.landing import Landed, Lander, LandTask, attempt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL: Final = re.compile(r"local(\[[^,\]]+(,\s*(\d+))?\])?")


def lander_on(spark: SparkSession) -> Lander:
    """A lander that runs tasks on the session's executors."""
    context = spark.sparkContext
    most = attempts_allowed(context.master or "", context.getConf().get("spark.task.maxFailures"))

    def land_all(tasks: Sequence[LandTask]) -> list[Landed]:
        if not tasks:
            return []
        return context.parallelize(tasks, len(tasks)).map(partial(_attempt, most)).collect()

    return land_all


def attempts_allowed(master: str, max_failures: str | None) -> int:
    """How often Spark tries a task: in ``local`` mode once, in ``local[n,m]`` m times."""
    local = _LOCAL.fullmatch(master)
    if local is not None:
        return int(local[3] or 1)
    return int(max_failures or 4)


def _attempt(most: int, task: LandTask) -> Landed:
    from pyspark import TaskContext

    context = TaskContext.get()
    tried = context.attemptNumber() + 1 if context is not None else 1
    with in_one_line():
        return attempt(task, last=tried >= most)
