"""What a run would read, in which passes, and about how long it takes (``--dry-run``): no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tallymark.client import SimpleConsumer
from tallymark.errors import TallymarkError
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store import Store
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.look import Job, newest
from tallymark_spark_jobs.reconcile.reading.claims import FEW_EVENTS
from tallymark_spark_jobs.reconcile.reading.read_plan import (
    Bounds,
    Planned,
    ReadPlan,
    audit_plan,
    read_plan,
)
from tallymark_spark_jobs.reconcile.reading.survey import survey

RECORDS_A_SECOND: Final = 400_000
"""About so many a core reads and counts; the number of the job before says it better."""
EVENTS_A_SECOND: Final = 1_500
START_SECONDS: Final = 8.0
SAMPLE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start`` to ``end``, excluded, of a partition; about so many bytes on the wire."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """``events``: of the audit topics; ``unread``: offsets behind the period; ``seconds``: about
    how long it takes, on the cores of this machine."""

    ranges: tuple[Range, ...]
    events: int
    unread: int
    passes: tuple[str, ...]
    seconds: float

    @property
    def offsets(self) -> int:
        """How many offsets of data are read."""
        return sum(one.end - one.start for one in self.ranges)


def forecast(job: Job, store: Store) -> Forecast:
    """Plan as a run does, and read a sample of each log. UserError: a cluster cannot be read."""
    clusters = survey(job.deployment, job.topics)
    changed = newest(ledger.changes_of(store, clusters, job.period))
    reports = audit_plan(clusters, AUDIT_TOPIC)
    plan = read_plan(clusters, Bounds(job.period, job.lateness_ms, changed))
    cores = os.cpu_count() or 1
    seconds = START_SECONDS + plan.offsets / RECORDS_A_SECOND / cores
    is_small = plan.offsets <= job.small
    by_client = is_small and reports.offsets <= FEW_EVENTS
    seconds += reports.offsets / EVENTS_A_SECOND / (1 if by_client else cores)
    unread = sum(one.last - one.first + 1 for one in plan.unread)
    passes = tuple(_passes(is_small, by_client))
    return Forecast(tuple(_ranges(plan)), reports.offsets, unread, passes, seconds)


def to_json(found: Forecast) -> dict[str, Any]:
    """For programs."""
    return {
        "ranges": [{name: getattr(one, name) for name in Range.__slots__} for one in found.ranges],
        "offsets": found.offsets,
        "bytes": sum(one.bytes for one in found.ranges),
        "audit_events": found.events,
        "unread": found.unread,
        "passes": list(found.passes),
        "seconds": round(found.seconds, 1),
    }


def lines_of(found: Forecast) -> Iterator[str]:
    """For people: a line a log, then the passes."""
    for one in found.ranges:
        yield (
            f"{one.cluster} {one.topic}-{one.partition}: offsets {one.start:,} to "
            f"{one.end - 1:,}, about {one.bytes / 1e6:,.1f} MB"
        )
    size = sum(one.bytes for one in found.ranges) / 1e6
    yield f"{found.offsets:,} offsets, about {size:,.1f} MB, and {found.events:,} audit events"
    if found.unread:
        yield f"{found.unread:,} offsets behind the period are read only if messages are missing"
    for name in found.passes:
        yield f"pass: {name}"
    yield f"about {found.seconds:,.0f} s on this machine"


def _passes(is_small: bool, by_client: bool) -> Iterator[str]:
    yield f"the audit topics, by {'the client' if by_client else 'Spark tasks'}"
    if is_small:
        yield "every cell with its exact ranges, judged on the driver"
    else:
        yield "every cell by count and digest, judged in tasks"
        yield "the exact ranges of cells that differ"
    yield "the offsets of what is missing, if anything is"


def _ranges(plan: ReadPlan) -> Iterator[Range]:
    consumers: dict[str, SimpleConsumer] = {}
    try:
        for one in plan.spans:
            if one.cluster not in consumers:
                connection = plan.connections[one.cluster]
                consumers[one.cluster] = SimpleConsumer(
                    **connection, client_id="tallymark-reconcile"
                )
            span = one.span
            size = round(_record_size(consumers[one.cluster], one) * span.offsets)
            yield Range(one.cluster, span.topic, span.partition, span.start, span.end, size)
    finally:
        for consumer in consumers.values():
            consumer.close()


def _record_size(consumer: SimpleConsumer, one: Planned) -> float:
    """Bytes of a record on the wire, of those at the beginning; 0 if they cannot be read."""
    span = one.span
    try:
        fetched = consumer.fetch(span.topic, span.partition, span.start, max_bytes=SAMPLE_BYTES)
    except TallymarkError:
        return 0.0
    headers = [batch.header for batch in fetched.batches]
    offsets = sum(header.next_offset - header.base_offset for header in headers)
    return sum(header.size for header in headers) / offsets if offsets else 0.0
