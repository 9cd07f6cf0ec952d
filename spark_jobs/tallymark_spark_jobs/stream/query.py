"""The query: one a cluster, each batch a load, until all is loaded or it is stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tallymark.errors import UserError
from tallymark_spark_jobs.engine.errors import as_user_error
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.load.job import LoadJob, clusters_of
from tallymark_spark_jobs.load.on_spark import lander_on
from tallymark_spark_jobs.load.outcome import Outcome, lines_of
from tallymark_spark_jobs.stream.batches import load_batch
from tallymark_spark_jobs.stream.ends import NAME, Asked, EndsSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a stream runs. ``settings``: the deployment's file, which the source reads again.
    ``checkpoint``: a folder or an address of Spark's; each cluster has one in it. ``interval_s``
    between the beginnings of batches, None: all that is there now, and then the end. ``most``
    offsets a batch, 0: no limit."""

    settings: str | None
    checkpoint: str
    interval_s: float | None = None
    most: int = 0


class LoadStream:
    """Queries that load the clusters of ``job``. ``say`` gets a line a batch that brought
    something."""

    def __init__(self, spark: SparkSession, job: LoadJob, settings: StreamSettings, say: Say):
        self._spark = spark
        self._job = job
        self._settings = settings
        self._say = say
        self._failure: BaseException | None = None
        self._queries: list[Any] = []
        self.outcomes: list[Outcome] = []
        """Of the batches, in order."""

    def run(self) -> None:
        """Until all queries have ended. Raises UserError for what a batch could not load, and what
        Spark raises. An interrupt stops the queries behind the running batch."""
        self._spark.dataSource.register(EndsSource)
        # The bridge logs what a batch raises, traceback and all; it is raised here again.
        bridge = logging.getLogger("py4j.clientserver")
        bridge.addFilter(_never)
        try:
            for cluster in clusters_of(self._job):
                self._queries.append(self._start(cluster.name))
            while any(query.isActive for query in self._queries):
                time.sleep(0.2)
                if self._failure is not None:
                    raise self._failure
            self._raise()
        finally:
            bridge.removeFilter(_never)
            for query in self._queries:
                with suppress(Exception):
                    query.stop()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure
        for query in self._queries:
            if (error := query.exception()) is not None:
                raise as_user_error(error, "Spark's output")

    def _start(self, cluster: str) -> Any:
        settings = self._settings
        checkpoint = f"{settings.checkpoint.rstrip('/')}/{cluster}"
        asked = Asked(settings.settings, cluster, self._job.topics, checkpoint, settings.most)
        job = replace(self._job, clusters=(cluster,))
        lander = lander_on(self._spark)
        cores = self._spark.sparkContext.defaultParallelism

        def batch(frame: Any, number: int) -> None:
            ends = {
                (row.topic, row.topic_id, row.partition): (row["begin"], row["end"])
                for row in frame.collect()
            }
            try:
                self._note(cluster, number, load_batch(job, ends, lander, _quiet(), cores))
            except BaseException as error:
                self._failure = error
                raise

        trigger: dict[str, Any] = {"availableNow": True}
        if settings.interval_s is not None:
            trigger = {"processingTime": f"{int(settings.interval_s * 1000)} milliseconds"}
        return (
            self._spark.readStream.format(NAME)
            .options(**asked.options())
            .load()
            .writeStream.foreachBatch(batch)
            .queryName(f"tallymark load {cluster}")
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )

    def _note(self, cluster: str, number: int, outcome: Outcome) -> None:
        """Raises UserError where something could not be loaded: the next start tries the batch
        again."""
        self.outcomes.append(outcome)
        if any(one.commits or one.problems for one in outcome.results) or outcome.unreported:
            for line in lines_of(outcome):
                self._say(f"{cluster} batch {number}: {line}")
        problems = [text for one in outcome.results for text in one.problems.values()]
        if problems:
            raise StoppedError(problems)


class StoppedError(UserError):
    """Partitions could not be loaded on; the others are."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"the stream stops: {problems[0]}{more}",
            "see what happened there; --accept-gap goes on and records the offsets as lost",
        )


def _never(record: logging.LogRecord) -> bool:
    return False


def _quiet() -> Steps:
    return Steps(lambda text: None, quiet=True)
