"""Find the offsets of missing messages: read the planned ranges again, with one Spark action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tallymark_spark_jobs.reconcile.counts import places
from tallymark_spark_jobs.reconcile.scan import stamps, union
from tallymark_spark_jobs.reconcile.search import Identity, LogSpan, Search, exactly
from tallymark_spark_jobs.source import columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tallymark_spark_jobs.reconcile.survey import ClusterSurvey

WANTED = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("origin_partition", pa.int32()),
        ("instance", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)


def find_places(
    spark: SparkSession, clusters: Sequence[ClusterSurvey], plan: Mapping[str, Search]
) -> dict[Identity, list[LogSpan]]:
    """Read the planned ranges and return the offsets of what was found, with one Spark action."""
    if not plan:
        return {}
    by_name = {cluster.name: cluster for cluster in clusters}
    frames = [stamps(spark, by_name[name], exactly(search)) for name, search in plan.items()]
    wanted = spark.createDataFrame(_table(plan))
    found: dict[Identity, list[LogSpan]] = {}
    for row in places(union(frames), wanted, ["cluster"]).collect():
        identity = Identity(row.topic, row.origin_partition, row.instance)
        place = LogSpan(*(row[name] for name in LogSpan._fields))
        found.setdefault(identity, []).append(place)
    return {identity: sorted(some) for identity, some in found.items()}


def _table(plan: Mapping[str, Search]) -> Any:
    rows = [
        (name, identity, first, last)
        for name, search in plan.items()
        for identity, sequences in search.wanted.items()
        for first, last in sequences
    ]
    made = [
        columns.strings([name for name, _, _, _ in rows]),
        columns.strings([identity.topic for _, identity, _, _ in rows]),
        columns.integers([identity.partition for _, identity, _, _ in rows], pa.int32()),
        columns.strings([identity.instance for _, identity, _, _ in rows]),
        columns.integers([first for _, _, first, _ in rows], pa.int64()),
        columns.integers([last for _, _, _, last in rows], pa.int64()),
    ]
    return pa.Table.from_arrays(made, schema=WANTED)
