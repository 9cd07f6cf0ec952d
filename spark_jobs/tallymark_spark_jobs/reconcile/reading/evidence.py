"""Find the offsets of missing messages: read the planned stretches again, in one Spark stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tallymark.client import SimpleConsumer
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.reconcile.reading.read_plan import Planned, ReadPlan
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan, Search
from tallymark_spark_jobs.source.reading import Damage, Expired, Piece, read_span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("origin_partition", pa.int32()),
        ("instance", pa.string()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("first_sequence", pa.int64()),
        ("last_sequence", pa.int64()),
    ]
)
Found = tuple[Identity, LogSpan]


def find_places(
    spark: SparkSession, plan: ReadPlan, searches: Mapping[str, Search], parallelism: int
) -> dict[Identity, list[LogSpan]]:
    """Read the planned stretches and return the offsets of what was found. What expires meanwhile
    is not found: that changes no verdict."""
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = plan.tasks(parallelism)
    if not tasks:
        return {}
    wanted = {name: search.wanted for name, search in searches.items()}
    work = partial(_run, tasks, dict(plan.connections), wanted)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    rows = numbers.mapInArrow(work, from_arrow_schema(FOUND)).toArrow().to_pylist()
    found: dict[Identity, list[LogSpan]] = {}
    for row in rows:
        identity = Identity(row["topic"], row["origin_partition"], row["instance"])
        place = LogSpan(*(row[name] for name in LogSpan._fields))
        found.setdefault(identity, []).append(place)
    return {identity: joined_places(some) for identity, some in found.items()}


Wanted = Mapping[str, Mapping[Identity, RangeSet]]


def _run(
    tasks: Sequence[Sequence[Planned]],
    connections: Mapping[str, ConnectionSettings],
    wanted: Wanted,
    batches: Iterator[Any],
) -> Iterator[Any]:
    with in_one_line():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _rows(list(search_spans(tasks[number], connections, wanted)))


def search_spans(
    spans: Sequence[Planned], connections: Mapping[str, ConnectionSettings], wanted: Wanted
) -> Iterator[Found]:
    """Where the wanted sequences lie in these spans: offsets and sequences that rise together."""
    for cluster, span in spans:
        client = SimpleConsumer(
            **connections[cluster], client_id="tallymark-reconcile", isolation="read_committed"
        )
        with client as consumer:
            for found in read_span(consumer, span, True, expires=True):
                if not isinstance(found, Damage | Expired):
                    for piece in found:
                        place = cluster, span.topic, span.partition
                        yield from places_in(place, piece, wanted.get(cluster, {}))


def places_in(
    place: tuple[str, str, int], piece: Piece, wanted: Mapping[Identity, RangeSet]
) -> Iterator[Found]:
    """Where they lie in a piece of (cluster, topic, partition)."""
    cluster, topic, partition = place
    if piece.aborted:
        return
    last: Found | None = None
    for record in piece.records():
        stamp = stamp_of(record.headers)
        if not isinstance(stamp, Stamp):
            continue
        identity = Identity(topic, stamp.partition, stamp.instance.hex())
        sequence, offset = stamp.sequence, record.offset
        if sequence not in wanted.get(identity, ()):
            continue
        span = LogSpan(cluster, topic, partition, offset, offset, sequence, sequence)
        if last is not None and last[0] == identity and _follows(last[1], span):
            last = identity, last[1]._replace(last_offset=offset, last_sequence=sequence)
            continue
        if last is not None:
            yield last
        last = identity, span
    if last is not None:
        yield last


def _follows(one: LogSpan, other: LogSpan) -> bool:
    return (
        one[:3] == other[:3]
        and other.first_offset == one.last_offset + 1
        and other.first_sequence == one.last_sequence + 1
    )


def joined_places(spans: Sequence[LogSpan]) -> list[LogSpan]:
    """In the order of the log, those of consecutive batches as one."""
    found: list[LogSpan] = []
    for one in sorted(spans):
        if found and _follows(found[-1], one):
            found[-1] = found[-1]._replace(
                last_offset=one.last_offset, last_sequence=one.last_sequence
            )
        else:
            found.append(one)
    return found


def _rows(found: Sequence[Found]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [span.cluster for _, span in found],
        [span.topic for _, span in found],
        [span.partition for _, span in found],
        [identity.partition for identity, _ in found],
        [identity.instance for identity, _ in found],
        [span.first_offset for _, span in found],
        [span.last_offset for _, span in found],
        [span.first_sequence for _, span in found],
        [span.last_sequence for _, span in found],
    ]
    made = [pa.array(column, one.type) for column, one in zip(columns, FOUND, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=FOUND)
