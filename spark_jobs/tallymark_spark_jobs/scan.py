"""What a reconciliation reads with Spark: the data of every cluster, counted, and the audit topics.

Two actions in all, whatever the number of clusters, one after the other: side by side they would
start two of every Python worker. Most of the time on small data is Spark getting under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from tallymark_audit.cells import CellKey, Copy
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.judge.passing import Part
from tallymark_audit.ranges import EMPTY, RangeSet
from tallymark_audit.sides import Observation
from tallymark_spark_jobs.claims import Claims, events_of, read_claims
from tallymark_spark_jobs.decide import ByWindow
from tallymark_spark_jobs.period import Period
from tallymark_spark_jobs.search import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tallymark_spark_jobs.survey import ClusterSurvey


@dataclass(frozen=True, slots=True)
class Scan:
    """All that was read: the runs of every cell, and the claims of every cluster."""

    runs: tuple[Run, ...]
    claims: Claims


def scan(
    spark: SparkSession, clusters: Sequence[ClusterSurvey], period: Period, window_ms: int
) -> Scan:
    """Count the data of the period and read all claims, each with one Spark action."""
    with ThreadPoolExecutor(1, thread_name_prefix="spark-warm-up") as pool:
        pool.submit(_warm_up, spark)
        claims = _claims(spark, clusters, window_ms)
        return Scan(_runs(spark, clusters, period, window_ms), claims)


def _warm_up(spark: SparkSession) -> None:
    """Let Spark start its Python workers while the first plan is still being made. Should it fail,
    so will the work itself, which says why."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        return batches

    spark.range(2, numPartitions=2).mapInArrow(same, "id long").collect()


def _runs(
    spark: SparkSession, clusters: Sequence[ClusterSurvey], period: Period, window_ms: int
) -> tuple[Run, ...]:
    from tallymark_spark_jobs.counts import cell_runs

    frames = [
        stamps(spark, cluster, {"subscribe": ",".join(cluster.topics), **_between(period)})
        for cluster in clusters
        if cluster.topics
    ]
    if not frames:
        return ()
    counted = cell_runs(union(frames), window_ms, ["cluster"])
    return tuple(row.asDict() for row in counted.collect())


def stamps(spark: SparkSession, cluster: ClusterSurvey, options: Mapping[str, str]) -> DataFrame:
    """Stamped rows of a cluster, with its name in the column ``cluster``."""
    return _load(spark, cluster, {"mode": "stamps", **options})


def _claims(spark: SparkSession, clusters: Sequence[ClusterSurvey], window_ms: int) -> Claims:
    frames = [
        _load(spark, cluster, {"subscribe": AUDIT_TOPIC}).select("cluster", "value")
        for cluster in clusters
        if cluster.has_claims
    ]
    return read_claims(events_of(union(frames).toArrow()) if frames else (), window_ms)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def _load(spark: SparkSession, cluster: ClusterSurvey, options: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F

    # bootstrap.servers, security.protocol ...: Spark does not show options called password.
    connection = {
        f"kafka.{name.replace('_', '.')}": str(value) for name, value in cluster.connection.items()
    }
    reader = spark.read.format("tallymark").options(**connection, **options)
    return reader.load().withColumn("cluster", F.lit(cluster.name))


def _between(period: Period) -> dict[str, str]:
    """A period without a start also takes in what carries no time."""
    end = {"endingTimestamp": str(period.end)}
    return end if period.start is None else {"startingTimestamp": str(period.start), **end}


def observations(runs: Iterable[Run]) -> dict[tuple[str, str], ByWindow]:
    """The runs as the audit's observations, by cluster and topic, then window."""
    found: dict[tuple[str, str], ByWindow] = {}
    for run in runs:
        seen = _observation(run)
        by_window = found.setdefault((run["cluster"], run["topic"]), {})
        cells = by_window.setdefault(seen.key.window, {})
        known = cells.get(seen.key)
        cells[seen.key] = known.merge(seen) if known else seen
    return found


def parts(
    runs: Iterable[Run],
) -> dict[tuple[str, str], dict[int, dict[CellKey, list[Part]]]]:
    """The runs that lie in one partition, as parts of their cells, by cluster and topic, then
    window. Of a run that is spread over several, with copies of its records, no offset is known."""
    found: dict[tuple[str, str], dict[int, dict[CellKey, list[Part]]]] = {}
    for run in runs:
        if run["first_partition"] == run["last_partition"]:
            seen = _observation(run)
            by_window = found.setdefault((run["cluster"], run["topic"]), {})
            cells = by_window.setdefault(seen.key.window, {})
            cells.setdefault(seen.key, []).append(Part(run["first_partition"], seen))
    return found


def _observation(run: Run) -> Observation:
    first, last = run["first_sequence"], run["last_sequence"]
    if run.get("aborted"):
        return _aborted(run, RangeSet.single(first, last))
    return Observation(
        key=CellKey(
            run["topic"], run["origin_partition"], run["window"], run["server"], run["instance"]
        ),
        count=run["messages"],
        bytes=run["bytes"],
        ranges=EMPTY if first is None else RangeSet.single(first, last),
        copies=tuple(Copy(*copy) for copy in run["copies"]),
        first_offset=run["first_offset"],
        last_offset=run["last_offset"],
        min_timestamp=run["min_timestamp"],
        max_timestamp=run["max_timestamp"],
        malformed=run["malformed"],
    )


def _aborted(run: Run, sequences: RangeSet) -> Observation:
    """Of transactions that were aborted only the sequences are kept, as the collector does."""
    return Observation(
        key=CellKey(
            run["topic"], run["origin_partition"], run["window"], run["server"], run["instance"]
        ),
        aborted=sequences,
        first_offset=run["first_offset"],
        last_offset=run["last_offset"],
    )
