"""Judge in tasks, by topic and window: the driver gets verdicts, and cells only where they are not
complete.

::

    cells ──► by family and windows ──┐
                                      ├──► judge_group ──► a line of JSON each: verdict, deferred,
    claims ─► by family and windows ──┘                    what to search, what is unresolved

One shuffle brings together what was counted and claimed of a group. Cells of which a task sent no
ranges, and whose digest fits no known set, come back as unresolved: their windows are judged in a
second round, from the exact ranges of these cells and the first round's tallies of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tallymark_spark_jobs.reconcile.judging.groups import Judged, Shared, judge_group
from tallymark_spark_jobs.reconcile.judging.judged_lines import judged_of, lines_of
from tallymark_spark_jobs.reconcile.reading.claim_tasks import read_claim_rows
from tallymark_spark_jobs.reconcile.reading.count_tasks import read_cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULT: Final = pa.schema([("kind", pa.string()), ("told", pa.string())])
CELLS_A_GROUP: Final = 5_000
"""A group has about so many cells, as far as windows are not larger."""
_GROUP: Final = ("family", "bucket")


def judge_in_tasks(
    cells: DataFrame, claims: DataFrame, shared: Shared, family: Mapping[str, str], span_ms: int
) -> Judged:
    """Judge all windows of these rows; windows of ``span_ms`` together make a group. ``cells`` are
    rows of :mod:`~tallymark_spark_jobs.reconcile.reading.count_tasks`, ``claims`` of
    :mod:`~tallymark_spark_jobs.reconcile.reading.claim_tasks`; ``family``: by topic."""
    from pyspark.sql.pandas.types import from_arrow_schema

    by_family: dict[str, list[str]] = {}
    for topic, name in family.items():
        by_family.setdefault(name, []).append(topic)
    work = partial(_judge, shared, by_family)
    left = with_groups(cells, family, span_ms).groupBy(*_GROUP)
    right = with_groups(claims, family, span_ms).groupBy(*_GROUP)
    told = left.cogroup(right).applyInArrow(work, from_arrow_schema(RESULT))
    return judged_of((row.kind, row.told) for row in told.toLocalIterator())


def with_groups(rows: DataFrame, family: Mapping[str, str], span_ms: int) -> DataFrame:
    """The rows with the columns ``family`` and ``bucket``; without those of other topics."""
    from pyspark.sql import functions as F

    spark = rows.sparkSession
    names = pa.table({"topic": list(family), "family": list(family.values())})
    known = F.broadcast(spark.createDataFrame(names))
    bucket = F.floor(F.col("window") / F.lit(span_ms))
    return rows.join(known, "topic").withColumn("bucket", bucket)


def span_of(cells: int, windows: int, window_ms: int) -> int:
    """How long (ms) the windows of a group are together."""
    each = CELLS_A_GROUP * max(1, windows) // max(1, cells)
    return window_ms * max(1, each)


def _judge(
    shared: Shared,
    by_family: Mapping[str, list[str]],
    key: tuple[Any, ...],
    left: pa.Table,
    right: pa.Table,
) -> pa.Table:
    topics = by_family[key[0].as_py()]
    judged = judge_group(shared, topics, read_cells(left), read_claim_rows(right))
    rows = list(lines_of(judged))
    columns = [[kind for kind, _ in rows], [told for _, told in rows]]
    return pa.Table.from_arrays([pa.array(one, pa.string()) for one in columns], schema=RESULT)
