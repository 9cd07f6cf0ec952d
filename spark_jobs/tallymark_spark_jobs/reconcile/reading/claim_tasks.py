"""Claims of large audit topics, folded in tasks: nothing is collected but one row a reporter.

A task folds its spans to the newest revision of every reporter and cell, and yields these as rows
that go to where their windows are judged. Of each event it yields the rest, without cells; of these
another stage makes the reporters, since how far a reporter's word goes depends on all its events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tallymark.client import SimpleConsumer
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.errors import RemoteProtocolError
from tallymark_audit.events.claim_book import CarriedKey, ClaimBook, PartKey, parts_of
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, Gap
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.model.sides import Claim
from tallymark_audit.store.schema.rows import (
    claim_from_row,
    claim_to_row,
    reporter_from_row,
    reporter_to_row,
)
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.reconcile.reading.claims import Claims, values_of
from tallymark_spark_jobs.reconcile.reading.read_plan import Planned, ReadPlan
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.tallies import ClaimPart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 1_000
CLAIM, EVENT, NOTE = "claim", "event", "note"
SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("cluster", pa.string()),
        ("reporter", pa.string()),
        ("topic", pa.string()),
        ("window", pa.int64()),
        ("number", pa.int64()),
        ("event", pa.binary()),
        ("told", pa.string()),
    ]
)
"""``number``: of a claim its revision, of an event its place in the log. ``event``: one without
cells. ``told``: JSON."""
REPORTER: Final = pa.schema([("cluster", pa.string()), ("told", pa.string())])
Row = dict[str, Any]


def claim_frame(
    spark: SparkSession,
    plan: ReadPlan,
    window_ms: int,
    period: Period,
    parallelism: int,
    most: int,
) -> DataFrame:
    """The rows of the audit topics; nothing is read before an action. A task reads ``most`` events
    at most."""
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = plan.tasks(parallelism, most)
    work = partial(_run, tasks, dict(plan.connections), window_ms, period)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(work, from_arrow_schema(SCHEMA))


def reporters_of(rows: DataFrame, clusters: Iterable[str]) -> Claims:
    """The reporters, and all else that is no claim of a cell."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    claims = Claims({name: ClaimBook() for name in clusters})
    events = rows.where(F.col("kind") == EVENT).groupBy("cluster", "reporter")
    for row in events.applyInArrow(_fold, from_arrow_schema(REPORTER)).toLocalIterator():
        _take_reporter(claims.book(row.cluster), json.loads(row.told))
    notes = rows.where(F.col("kind") == NOTE).select("cluster", "told")
    for row in notes.toLocalIterator():
        _take_note(claims, row.cluster, json.loads(row.told))
    return claims


def claim_rows(
    cluster: str, parts: Mapping[PartKey, tuple[int, Claim]], tiers: Mapping[str, str]
) -> Iterator[Row]:
    """A row a claim."""
    for (reporter, key, part), (revision, claim) in parts.items():
        told = claim_to_row(cluster, reporter, part, revision, claim, tiers.get(reporter, ""))
        yield {
            "kind": CLAIM,
            "cluster": cluster,
            "reporter": reporter,
            "topic": key.topic,
            "window": key.window,
            "number": revision,
            "told": json.dumps(told),
        }


def read_claim_rows(rows: pa.RecordBatch | pa.Table) -> Iterator[ClaimPart]:
    """The claims among the rows."""
    for row in rows.to_pylist():
        if row["kind"] == CLAIM:
            raw = json.loads(row["told"])
            claim = claim_from_row(raw)
            part = PartKey(row["reporter"], claim.key, raw["part"])
            yield ClaimPart(row["cluster"], part, row["number"], claim)


def batches_of(rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, some at a time; what a row does not have is null."""
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == ROWS:
            yield pa.RecordBatch.from_pylist(some, schema)
            some = []
    if some:
        yield pa.RecordBatch.from_pylist(some, schema)


def _run(
    tasks: Sequence[Sequence[Planned]],
    connections: Mapping[str, ConnectionSettings],
    window_ms: int,
    period: Period,
    batches: Iterator[Any],
) -> Iterator[Any]:
    with in_one_line():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for planned in tasks[number]:
                    connection = connections[planned.cluster]
                    client = SimpleConsumer(**connection, client_id="tallymark-reconcile")
                    with client as consumer:
                        yield from batches_of(_span_rows(consumer, planned, window_ms, period))


def _span_rows(
    consumer: SimpleConsumer, planned: Planned, window_ms: int, period: Period
) -> Iterator[Row]:
    """The rows of one span."""
    from tallymark_audit.events.event_checks import read_event

    cluster, span = planned
    claims = Claims()
    parts: dict[PartKey, tuple[int, Claim]] = {}
    tiers: dict[str, str] = {}
    for at, value in enumerate(values_of(consumer, planned, claims)):
        try:
            event = read_event(value, window_ms)
        except RemoteProtocolError as error:
            claims.refuse(cluster, error)
            continue
        tiers[event.reporter] = event.tier
        for cell in event.cells:
            claims.publish(cluster, cell.topic, event.reporter)
        for part, revision, claim in parts_of(_of_period(event, period)):
            if part not in parts or parts[part][0] < revision:
                parts[part] = revision, claim
        yield {
            "kind": EVENT,
            "cluster": cluster,
            "reporter": event.reporter,
            "number": (span.partition << 48) + span.start + at,
            "event": encode_event(replace(event, cells=())),
        }
    yield from claim_rows(cluster, parts, tiers)
    yield {"kind": NOTE, "cluster": cluster, "told": json.dumps(_note(cluster, claims))}


def _of_period(event: AuditEvent, period: Period) -> AuditEvent:
    cells = tuple(cell for cell in event.cells if period.holds(cell.window_start))
    return replace(event, cells=cells)


def _note(cluster: str, claims: Claims) -> Row:
    topics = claims.publishing.get(cluster, {})
    return {
        "damaged": claims.damaged,
        "example": claims.example,
        "unread": claims.unread,
        "expired": claims.expired.get(cluster, 0),
        "publishing": {topic: sorted(names) for topic, names in topics.items()},
    }


def _take_note(claims: Claims, cluster: str, raw: Row) -> None:
    claims.damaged += raw["damaged"]
    claims.example = claims.example or raw["example"]
    claims.unread += [Damaged(*one) for one in raw["unread"]]
    if raw["expired"]:
        claims.expired[cluster] = max(claims.expired.get(cluster, 0), raw["expired"])
    for topic, names in raw["publishing"].items():
        for name in names:
            claims.publish(cluster, topic, name)


def _fold(key: tuple[Any, ...], events: pa.Table) -> pa.Table:
    """One reporter, from all its events in the order of the log."""
    from tallymark_audit.events.event_codec import decode_event

    book = ClaimBook()
    rows = sorted(events.select(["number", "event"]).to_pylist(), key=lambda row: row["number"])
    for row in rows:
        book.add(decode_event(row["event"]))
    (reporter,) = book.reporters.values()
    told = {
        "reporter": reporter_to_row("", reporter),
        "copied": [
            [*place, *at, book.topic_ids.get(place, "")] for place, at in book.copied.items()
        ],
        "gaps": [asdict(gap) for _, gap in book.gaps],
    }
    made = [{"cluster": key[0].as_py(), "told": json.dumps(told)}]
    return pa.Table.from_pylist(made, REPORTER)


def _take_reporter(book: ClaimBook, raw: Row) -> None:
    reporter = reporter_from_row(raw["reporter"])
    book.reporters[reporter.reporter] = reporter
    for name, topic, partition, at, offset, topic_id in raw["copied"]:
        place = CarriedKey(name, topic, partition)
        book.copied[place], book.topic_ids[place] = (at, offset), topic_id
    for gap in raw["gaps"]:
        book.gaps[reporter.reporter, Gap(**gap)] = None
