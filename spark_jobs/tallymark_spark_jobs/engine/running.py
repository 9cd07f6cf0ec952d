"""Run a job on Spark: start it as a step of its own, and say what goes wrong in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_spark_jobs.engine.errors import as_user_error, from_spark
from tallymark_spark_jobs.engine.permanent import ends_at_permanent_errors
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import (
    driver_runs_anywhere,
    spark_session,
    under_spark_submit,
)
from tallymark_spark_jobs.engine.sizing import SMALL_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FILE: Final = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Engine:
    """Where a job runs. ``master``: None leaves it to Spark's own settings. ``conf``: what the
    command's ``--conf`` gave, by :func:`.said.of_options`. ``large``: the job takes minutes, which
    counts where it does not know itself how much it will read."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict[str, str])
    large: bool = False


@contextmanager
def spark_job(
    app: str, log_dir: Path, engine: Engine, steps: Steps, planned_rows: int | None = None
) -> Iterator[SparkSession]:
    """A session for the time of the block, which ``steps`` watches. ``app``: its name in Spark's
    pages. ``planned_rows``: what the job will read, as far as known.

    UserError for all that Spark raises within: our own line where a task of ours raised it."""
    log = log_dir / "spark.log"
    rows = SMALL_ROWS if engine.large and planned_rows is None else planned_rows
    with ExitStack() as until_the_end:
        with steps.step("start", "starting Spark"):
            session = spark_session(app, log, engine.master, engine.conf, rows)
            spark = until_the_end.enter_context(session)
        steps.watch(spark)
        try:
            with ends_at_permanent_errors(spark):
                yield spark
        except Exception as error:
            if not from_spark(error):
                raise
            where = "Spark's output" if under_spark_submit() else str(log)
            raise as_user_error(error, where) from error


def refuse_lost_store(deployment: Deployment) -> None:
    """UserError in cluster mode when the audit store is a file that is not here: a new one would go
    with the driver's folder, and every verdict with it."""
    if driver_runs_anywhere() and is_lost(deployment.audit_store):
        raise UserError(
            f"the audit store {deployment.audit_store} is not on the machine of the driver, which "
            "the cluster has chosen",
            "set store in [audit] to a PostgreSQL address, mount the file under this name, or give "
            "spark-submit --deploy-mode client",
        )


def is_lost(store: str) -> bool:
    """Whether the store is a file that is not there."""
    return store.startswith(_FILE) and not Path(store.removeprefix(_FILE)).is_file()
