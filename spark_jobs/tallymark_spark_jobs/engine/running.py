"""Run a job on Spark: start it as a step of its own, and say what goes wrong in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark_spark_jobs.engine.errors import as_user_error, from_spark
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session, under_spark_submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Engine:
    """Where a job runs. ``master``: None leaves it to Spark's own settings. ``conf``: what the
    command's ``--conf`` gave, by :func:`.said.of_options`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def spark_job(
    app: str, log_dir: Path, engine: Engine, steps: Steps, planned_bytes: int | None = None
) -> Iterator[SparkSession]:
    """A session for the time of the block, which ``steps`` watches. ``app``: its name in Spark's
    pages. ``planned_bytes``: what the job will read, as far as known.

    UserError for all that Spark raises within: our own line where a task of ours raised it."""
    log = log_dir / "spark.log"
    with ExitStack() as until_the_end:
        with steps.step("start", "starting Spark"):
            session = spark_session(app, log, engine.master, engine.conf, planned_bytes)
            spark = until_the_end.enter_context(session)
        steps.watch(spark)
        try:
            yield spark
        except Exception as error:
            if not from_spark(error):
                raise
            where = "Spark's output" if under_spark_submit() else str(log)
            raise as_user_error(error, where) from error
