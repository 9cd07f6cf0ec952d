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

from tallymark_audit.judge.copy_progress import Part
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.model.cells import Block, CellKey, Copy
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.hashing import MASK
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_spark_jobs.reconcile.claims import Claims, events_of, read_claims
from tallymark_spark_jobs.reconcile.period import Period
from tallymark_spark_jobs.reconcile.search import Run
from tallymark_spark_jobs.reconcile.spark_facts import ByWindow
from tallymark_spark_jobs.source.kinds import NO_RECORD, end_of_damage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tallymark_spark_jobs.reconcile.survey import ClusterSurvey


@dataclass(frozen=True, slots=True)
class Scan:
    """All that was read: the runs of every cell, and the claims of every cluster."""

    runs: tuple[Run, ...]
    claims: Claims
    damaged: tuple[Damaged, ...] = ()
    """Where logs cannot be read, the audit topics too."""


def scan(
    spark: SparkSession,
    clusters: Sequence[ClusterSurvey],
    period: Period,
    window_ms: int,
    contents: bool = False,
) -> Scan:
    """Count the data of the period and read all claims, each with one Spark action. ``contents``:
    hash keys and values, too."""
    with ThreadPoolExecutor(1, thread_name_prefix="spark-warm-up") as pool:
        pool.submit(_warm_up, spark)
        claims, unread = _claims(spark, clusters, window_ms)
        rows = _runs(spark, clusters, period, window_ms, contents)
    runs = tuple(row for row in rows if not row["damaged"])
    found = [_damaged(row, runs) for row in rows if row["damaged"]]
    return Scan(runs, claims, joined([*found, *unread]))


def _damaged(row: Run, runs: Sequence[Run]) -> Damaged:
    """A row for offsets that cannot be read. Its own times are those of the records around it in
    the same span; records of other spans are among the runs."""
    cluster, topic, partition = row["cluster"], row["topic"], row["first_partition"]
    mine = [run for run in runs if (run["cluster"], run["topic"]) == (cluster, topic)]
    before = [
        run["max_timestamp"]
        for run in mine
        if run["last_partition"] == partition and run["last_offset"] < row["first_offset"]
    ]
    spread = any(run["last_partition"] != run["origin_partition"] for run in mine)
    since = max([row["max_timestamp"], *before])
    place = (cluster, topic, partition, row["first_offset"])
    end, until = end_of_damage(row["instance"])
    if until < 0:
        behind = [
            run["max_timestamp"]
            for run in mine
            if run["first_partition"] == partition and run["first_offset"] >= end
        ]
        until = min(behind, default=-1)
    return Damaged(
        *place, row["server"], since, spread, end, until if until < 0 else max(since, until)
    )


def joined(found: Iterable[Damaged]) -> tuple[Damaged, ...]:
    """In the order of the logs; damage that continues in the next span is joined to one."""
    told: list[Damaged] = []
    for one in sorted(found, key=lambda each: each[:4]):
        last = told[-1] if told else None
        if last is not None and last[:3] == one[:3] and last.end >= one.offset:
            told[-1] = last._replace(end=max(last.end, one.end), until=one.until)
        else:
            told.append(one)
    return tuple(told)


def _warm_up(spark: SparkSession) -> None:
    """Let Spark start its Python workers while the first plan is still being made. If it fails, the
    work itself fails too, with the reason."""

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        return batches

    spark.range(2, numPartitions=2).mapInArrow(same, "id long").collect()


def _runs(
    spark: SparkSession,
    clusters: Sequence[ClusterSurvey],
    period: Period,
    window_ms: int,
    contents: bool,
) -> tuple[Run, ...]:
    from tallymark_spark_jobs.reconcile.counts import cell_runs

    more = _between(period) | ({"includeContentHash": "true"} if contents else {})
    frames = [
        stamps(spark, cluster, {"subscribe": ",".join(cluster.topics), **more})
        for cluster in clusters
        if cluster.topics
    ]
    if not frames:
        return ()
    counted = cell_runs(union(frames), window_ms, ["cluster"])
    return tuple(row.asDict() for row in counted.collect())


def stamps(spark: SparkSession, cluster: ClusterSurvey, options: Mapping[str, str]) -> DataFrame:
    """Stamped rows of a cluster, with its name in the column ``cluster``."""
    return _load(spark, cluster, {"mode": "stamps", "failOnCorruptBatch": "false", **options})


def _claims(
    spark: SparkSession, clusters: Sequence[ClusterSurvey], window_ms: int
) -> tuple[Claims, list[Damaged]]:
    """The claims of the audit topics, and where they cannot be read."""
    from pyspark.sql import functions as F

    options = {"subscribe": AUDIT_TOPIC, "failOnCorruptBatch": "false"}
    # Offset and time of a record are only asked for where it is none.
    place = [
        F.when(F.col("timestampType") == NO_RECORD, column).alias(name)
        for name, column in (
            ("partition", F.col("partition")),
            ("offset", F.col("offset")),
            ("since", F.unix_millis("timestamp")),
            ("end", F.col("key")),
        )
    ]
    frames = [
        _load(spark, cluster, options).select("cluster", "value", *place)
        for cluster in clusters
        if cluster.has_claims
    ]
    if not frames:
        return read_claims((), window_ms), []
    read = union(frames).toArrow()
    damaged = read.filter(read["offset"].is_valid()).to_pylist()
    events = read.filter(read["offset"].is_null())
    return read_claims(events_of(events), window_ms), [
        Damaged(
            row["cluster"],
            AUDIT_TOPIC,
            row["partition"],
            row["offset"],
            row["value"].decode(),
            row["since"],
            True,
            *end_of_damage(row["end"].decode()),
        )
        for row in damaged
    ]


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
    end = {"endingTimestamp": str(period.end), "endingLateness": "all"}
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
        blocks=_blocks(run),
    )


def _blocks(run: Run) -> tuple[Block, ...]:
    """What the run holds of its block of the content check, where contents were hashed."""
    if run["first_sequence"] is None or run.get("content_low") is None:
        return ()
    hashes = run["content_low"] + (run["content_high"] << 32) & MASK
    return (Block(run["block"], run["messages"], hashes),)


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
