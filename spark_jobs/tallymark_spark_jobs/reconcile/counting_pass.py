"""The Spark work of one look: claims, counting, judging, on the driver or in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from tallymark_audit.model.cells import FOREVER
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.reconcile.judging.groups import Judged, Shared, judge_group
from tallymark_spark_jobs.reconcile.judging.in_tasks import judge_in_tasks, span_of
from tallymark_spark_jobs.reconcile.reading import count_tasks
from tallymark_spark_jobs.reconcile.reading.claim_tasks import (
    CLAIM,
    claim_frame,
    read_claim_rows,
    reporters_of,
)
from tallymark_spark_jobs.reconcile.reading.claims import Claims
from tallymark_spark_jobs.reconcile.reading.count_tasks import (
    CELL,
    SPAN,
    Counting,
    SpanNote,
    count_frame,
    exactly,
    notes_of,
    read_rows,
    rows_of,
    schema,
)
from tallymark_spark_jobs.reconcile.reading.damages import expired
from tallymark_spark_jobs.reconcile.reading.read_plan import ReadPlan, plan_of
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.resolve import CellAt, joined
from tallymark_spark_jobs.reconcile.shapes.search import together
from tallymark_spark_jobs.reconcile.shapes.tallies import ClaimPart, Seen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tallymark_spark_jobs.reconcile.look import Job

EVENTS_A_TASK = 20_000
GAP = 1_000
"""Stretches that lie so close are read as one."""


@dataclass(slots=True)
class Work:
    """What is read and kept while a look lasts."""

    spark: SparkSession
    job: Job
    period: Period
    plan: ReadPlan
    reports: ReadPlan
    given: tuple[Seen, ...] = ()
    """What was counted before, and is not read again."""
    _claim_rows: DataFrame | None = None
    _cells: DataFrame | None = None
    _seen: list[Seen] = field(default_factory=list[Seen])
    _notes: list[SpanNote] = field(default_factory=list[SpanNote])

    @property
    def is_small(self) -> bool:
        """Whether the driver can hold all tallies, whatever they are."""
        return self.plan.offsets + len(self.given) <= self.job.small

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return self.spark.sparkContext.defaultParallelism

    def claims(self) -> Claims:
        """The reporters; their claims stay with Spark."""
        window_ms = self.job.deployment.audit.window_ms
        rows = claim_frame(
            self.spark, self.reports, window_ms, self.period, self.parallelism, EVENTS_A_TASK
        )
        self._claim_rows = _kept(rows)
        return reporters_of(self._claim_rows, self.plan.connections)

    def count(self) -> list[SpanNote]:
        """Count the planned spans; what tasks met in them."""
        self._notes = notes_of(self.given)
        if self.is_small:
            self._seen = list(self.given)
            if self.plan.spans:
                counted = read_rows(self._counted(self.plan).toArrow())
                self._seen += counted.seen
                self._notes += counted.notes
            return self._notes
        frames = [self._counted(self.plan)] if self.plan.spans else []
        if self.given:
            frames.append(self._given())
        self._cells = _kept(reduce(lambda one, other: one.unionByName(other), frames))
        self._notes += _notes(self._cells)
        return self._notes

    def judge(self, shared: Shared, family: Mapping[str, str]) -> Judged:
        """Judge all that was counted and claimed."""
        if self._cells is None:
            return judge_group(shared, family, self._seen, self._claims_here())
        from pyspark.sql import functions as F

        cells = self._cells.where(F.col("kind") == CELL)
        claims = self._claims_in_spark()
        window_ms = self.job.deployment.audit.window_ms
        span_ms = span_of(cells.count(), self._windows(window_ms), window_ms)
        first = judge_in_tasks(cells, claims, shared, family, span_ms)
        if not first.unresolved:
            return first
        again = self._exact(cells, first.unresolved)
        gone = expired(self._notes, shared.facts.as_of)
        retained = {**shared.facts.retained_from}
        for place, at in gone.items():
            retained[place] = max(retained.get(place, at), at)
        shared = replace(shared, facts=replace(shared.facts, retained_from=retained))
        touched = sorted({(family.get(key.topic), key.window) for _, key in first.unresolved})
        second = judge_in_tasks(
            _of_windows(again, family, touched),
            _of_windows(claims, family, touched),
            shared,
            family,
            span_ms,
        )
        return _both(first, second)

    def close(self) -> None:
        """Forget what was kept."""
        for frame in (self._cells, self._claim_rows):
            if frame is not None:
                frame.unpersist()

    def _counted(self, plan: ReadPlan) -> DataFrame:
        return count_frame(self.spark, plan, self._how(), self.parallelism)

    def _given(self) -> DataFrame:
        import pyarrow as pa

        by_cluster: dict[str, list[CellTally]] = {}
        for cluster, tally, _ in self.given:
            by_cluster.setdefault(cluster, []).append(tally)
        batches = [row for name, some in by_cluster.items() for row in rows_of(name, some)]
        return self.spark.createDataFrame(pa.Table.from_batches(batches, schema()))

    def _how(self) -> Counting:
        audit = self.job.deployment.audit
        start = -FOREVER - 1 if self.period.start is None else self.period.start
        how = Counting(audit.window_ms, (start, self.period.end), audit.content_check)
        return how if self.is_small else replace(how, most=count_tasks.FEW_RANGES)

    def _windows(self, window_ms: int) -> int:
        times = [
            time for note in self._notes if note.messages for time in (note.oldest, note.newest)
        ]
        return (max(times) - min(times)) // window_ms + 1 if times else 1

    def _claims_here(self) -> Iterable[ClaimPart]:
        if self._claim_rows is None:
            return ()  # in the books
        from pyspark.sql import functions as F

        return read_claim_rows(self._claim_rows.where(F.col("kind") == CLAIM).toArrow())

    def _claims_in_spark(self) -> DataFrame:
        from pyspark.sql import functions as F

        assert self._claim_rows is not None  # the claims of what is not small are read in tasks
        return self._claim_rows.where(F.col("kind") == CLAIM)

    def _exact(self, cells: DataFrame, unresolved: Mapping[CellAt, Iterable[Any]]) -> DataFrame:
        """All cells, with the exact ranges of these."""
        stretches = joined((one for some in unresolved.values() for one in some), GAP)
        plan = plan_of(self.plan.connections, stretches, self.plan.spans)
        how = exactly(self._how(), unresolved)
        exact = _kept(count_frame(self.spark, plan, how, self.parallelism))
        self._notes += _notes(exact)
        import pyarrow as pa
        from pyspark.sql import functions as F

        names = ["cluster", "topic", "partition", "window", "server", "instance"]
        places = [(cluster, *key) for cluster, key in unresolved]
        types = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.string(), pa.string()]
        columns = [
            pa.array(list(column), kind)
            for column, kind in zip(zip(*places, strict=True), types, strict=True)
        ]
        table = pa.Table.from_arrays(columns, names)
        wanted = F.broadcast(self.spark.createDataFrame(table))
        others = cells.join(wanted, names, "left_anti").select(cells.columns)
        return others.unionByName(exact.where(F.col("kind") == CELL))


def _kept(frame: DataFrame) -> DataFrame:
    from pyspark import StorageLevel

    return frame.persist(StorageLevel.DISK_ONLY)


def _notes(rows: DataFrame) -> list[SpanNote]:
    from pyspark.sql import functions as F

    return read_rows(rows.where(F.col("kind") == SPAN).toArrow()).notes


def _of_windows(
    rows: DataFrame, family: Mapping[str, str], touched: Sequence[tuple[str | None, int]]
) -> DataFrame:
    """The rows of these families and windows."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    by_family: dict[str | None, list[str]] = {}
    for topic, name in family.items():
        by_family.setdefault(name, []).append(topic)
    pairs = [(topic, window) for name, window in touched for topic in by_family.get(name, ())]
    table = pa.table(
        {
            "topic": pa.array([topic for topic, _ in pairs], pa.string()),
            "window": pa.array([window for _, window in pairs], pa.int64()),
        }
    )
    wanted = F.broadcast(rows.sparkSession.createDataFrame(table))
    return rows.join(wanted, ["topic", "window"], "left_semi").select(rows.columns)


def _both(one: Judged, other: Judged) -> Judged:
    verdicts = [*one.verdicts, *other.verdicts]
    return Judged(
        verdicts,
        [*one.deferred, *other.deferred],
        together([one.search, other.search]),
        other.unresolved,
    )
