"""End a job at the first error that another try cannot mend.

Spark runs a failed task again, four times by default, whatever it failed with. So a thread of the
driver looks at the tasks that failed, and cancels the jobs when one of them failed for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import UserError
from tallymark_spark_jobs.engine.errors import from_spark, permanent_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S: Final = 0.25


@contextmanager
def ends_at_permanent_errors(spark: SparkSession) -> Iterator[None]:
    """While the block runs. UserError with the task's line, in place of what Spark raises for the
    jobs that were cancelled."""
    ended = threading.Event()
    found: list[str] = []

    def look() -> None:
        failed = _failures(spark)
        while not ended.wait(LOOK_EVERY_S):
            line = next((line for text in failed() if (line := permanent_line(text))), None)
            if line is not None:
                found.append(line)
                spark.sparkContext.cancelAllJobs()
                return

    thread = threading.Thread(target=look, name="tallymark-failed-tasks", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        ended.set()
        thread.join()
        if found and from_spark(error):
            raise UserError(found[0]) from error
        raise
    finally:
        ended.set()
        thread.join()


def _failures(spark: SparkSession) -> Callable[[], Iterator[str]]:
    """Each call gives what tasks have failed with that were not seen to fail before."""
    context: Any = spark.sparkContext
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    seen: dict[int, int] = {}

    def look() -> Iterator[str]:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            failed = info.numFailedTasks if info is not None else 0
            if info is None or failed <= seen.get(stage, 0):
                continue
            seen[stage] = failed
            tasks = store.taskList(stage, info.currentAttemptId, info.numTasks + failed)
            for n in range(tasks.size()):
                message = tasks.apply(n).errorMessage()
                if message.isDefined():
                    yield str(message.get())

    return look
