"""What a load would do, without doing it: ranges, tables, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tallymark.client import SimpleConsumer
from tallymark.errors import TallymarkError
from tallymark_spark_jobs.load.planning import LoadPlan, readable

if TYPE_CHECKING:
    from tallymark_spark_jobs.load.shapes import TopicLoad

SAMPLES: Final = 4
"""Of so many partitions of a topic a part is read, to find how large a record is."""
_SAMPLE_BYTES: Final = 256 << 10
ROWS_PER_CPU_SECOND: Final = 300_000
"""What one core loads, without compiled loops; docs/performance.md."""


def bytes_per_offset(load: TopicLoad, plan: LoadPlan) -> float | None:
    """About how many bytes an offset of the plan has in its log, by the beginning of some of its
    ranges; None: no sample could be read."""
    size = offsets = 0
    try:
        with SimpleConsumer(
            **load.connection, client_id="tallymark-load", request_timeout_ms=10_000
        ) as consumer:
            for span in readable(plan)[:SAMPLES]:
                found = consumer.fetch(
                    span.key.topic, span.key.partition, span.start, max_bytes=_SAMPLE_BYTES
                )
                size += sum(len(batch.data) for batch in found.batches)
                offsets += sum(
                    one.header.next_offset - one.header.base_offset for one in found.batches
                )
    except TallymarkError:
        return None
    return size / offsets if offsets else None


def to_json(loads: Iterable[TopicLoad], plans: Sequence[LoadPlan]) -> dict[str, Any]:
    """What would be loaded. Ends of ranges are excluded; ``bytes`` are estimated, in the log."""
    tables = [_table(load, plan) for load, plan in zip(loads, plans, strict=True)]
    offsets = sum(plan.offsets for plan in plans)
    return {
        "offsets": offsets,
        "cpu_seconds": round(offsets / ROWS_PER_CPU_SECOND, 1),
        "tables": tables,
    }


def lines_of(told: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    for table in told["tables"]:
        size = "" if table["bytes"] is None else f", about {table['bytes'] / 1e6:,.1f} MB"
        yield f"{table['cluster']} {table['topic']}: {table['offsets']:,} offsets{size}"
        yield f"  into {table['location']}, version {table['version']}"
        for one in table["ranges"]:
            yield f"  partition {one['partition']}: {one['start']} to {one['end'] - 1}"
        for one in table["lost"]:
            yield f"  LOST partition {one['partition']}: {one['start']} to {one['end'] - 1}"
        yield from (f"  NOT LOADED {text}" for text in table["problems"])
    yield (
        f"{told['offsets']:,} offsets in {len(told['tables'])} tables, about "
        f"{told['cpu_seconds']:g} s of processor time"
    )


def _table(load: TopicLoad, plan: LoadPlan) -> dict[str, Any]:
    each = bytes_per_offset(load, plan) if plan.ranges else 0.0
    return {
        "cluster": load.cluster,
        "topic": load.topic,
        "location": load.table.location,
        "version": load.table.open().version,
        "offsets": plan.offsets,
        "bytes": None if each is None else round(each * plan.offsets),
        "ranges": [_range(one) for one in plan.ranges],
        "lost": [_range(one) for one in plan.lost],
        "problems": [one.text for one in plan.problems],
    }


def _range(one: Any) -> dict[str, int]:
    return {"partition": one.key.partition, "start": one.start, "end": one.end}
