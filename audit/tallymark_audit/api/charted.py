"""Courses over time, for charts: sums of verdicts by bucket and by topic, latencies, lateness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields, lists, params
from tallymark_audit.api.fields import Fields, number, text, time
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.periods import DAY, SUMS, period_of, sums_row
from tallymark_audit.api.problems import Answer, AuditRoute
from tallymark_audit.api.state import api_of
from tallymark_audit.store.reading import latency as latencies
from tallymark_audit.store.reading.heat import HeatCell, heat
from tallymark_audit.store.reading.series import buckets as buckets_of
from tallymark_audit.store.reading.worst import worst
from tallymark_audit.store.schema.rows import Row

TOPICS_AT_ONCE: Final = 50
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
BUCKET: Final[Fields] = {"start": time("The start of the bucket,"), **SUMS}
BUCKETS = Listing("buckets", BUCKET, {"start": int})
HEAT: Final[Fields] = {
    "topic": text("The topic."),
    "start": time("The start of the bucket,"),
    "state": text("The worst state of its windows."),
    "windows": number("Its windows."),
    "missing": number("Messages that are lost."),
    "duplicates": number("Copies beyond the first of each message."),
    "unclaimed": number("Messages that are there without a claim."),
    "bad": number("Windows that are wrong or UNKNOWN, and not accepted."),
    "healed": number("Windows that were bad, and were repaired or accepted since."),
    "edge": text("The edge of the worst bad window; empty: none is bad."),
    "window": time("The start of that window (-1: none is bad),"),
}
HEAT_CELLS = Listing("heat", HEAT, {"skip": int, "start": int})
LATENCY = Listing("latency", counted_fields.PERCENTILES, {})
LATENESS = Listing("lateness", counted_fields.PERCENTILES, {})
_PERIOD: Final[Fields] = {
    "start": time("The period: from,"),
    "end": time("And up to, excluded,"),
    "bucket_ms": number("How long a bucket is (ms)."),
}


@lists.route(router, "/buckets", BUCKETS, _PERIOD)
def buckets(
    request: Request,
    period: params.Windows,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
    bucket: params.Bucket = None,
) -> Response:
    """The verdicts of the windows from ``from`` up to ``to`` (else: of the last day) summed up by
    buckets of time, the earliest first; buckets without a window are left out. Of all edges each
    message counts once: what was claimed at the first hop, what is missing where it was lost."""
    start, end, length = period_of(api_of(request), period, bucket)

    def read(connection: Connection) -> list[Row]:
        found = buckets_of(connection, edge, topic, start, end, length)
        return [{"start": one.start, **sums_row(one.sums)} for one in found]

    return _series(request, BUCKETS, read, (start, end, length))


@lists.route(router, "/heat", HEAT_CELLS)
def heat_cells(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    find: params.Find = "",
    edge: params.EdgeName = None,
    bucket: params.Bucket = None,
) -> Response:
    """The cells of the heatmap: the topics, the worst of the period (else: of the last day) first,
    by buckets of time, the earliest first. A bucket without a window is left out. The order may
    change from page to page."""
    start, end, length = period_of(api_of(request), period, bucket)

    def read(connection: Connection, after: Any, most: int) -> Page:
        skip, behind = after or (0, -1)
        skip = min(max(0, skip), params.MOST_SKIPPED)
        found = worst(connection, start, end, TOPICS_AT_ONCE, skip, find)
        names = [one.topic for one in found.rows]
        cells = heat(connection, names, start, end, length, edge)
        rows: list[Row] = []
        for place, name in enumerate(names, skip):
            for cell in cells[name]:
                if place == skip and cell.start <= behind:
                    continue
                if len(rows) == most:
                    return Page(rows, [place, behind])
                rows.append(_heat_row(name, cell))
                behind = cell.start
            behind = -1
        more = skip + len(names)
        return Page(rows, [more, -1] if names and more < found.topics else None)

    return lists.answer_page(request, HEAT_CELLS, read, asked)


@lists.route(router, "/latency", LATENCY, _PERIOD)
def latency(
    request: Request,
    period: params.Times,
    cluster: params.ClusterName = None,
    topic: params.TopicName = None,
    bucket: params.Bucket = None,
) -> Response:
    """How long messages took from their stamp until they were counted on a cluster, by when they
    were counted: percentiles of merged sketches, right to 2 %. Of one topic (as that cluster calls
    it) whole hours are known, of all together ten minutes."""
    api = api_of(request)
    start, end, length = period_of(api, period, bucket, 60 if topic is not None else 10)
    names = [one.name for one in api.deployment.clusters] if cluster is None else [cluster]

    def read(connection: Connection) -> list[Row]:
        found = latencies.latency_series(connection, names, topic, start, end, length)
        return [asdict(one) for one in found]

    return _series(request, LATENCY, read, (start, end, length))


@lists.route(router, "/lateness", LATENESS, _PERIOD)
def lateness(
    request: Request,
    counter: Annotated[
        params.Name, Query(description="The cluster that counted, or the hop to a group.")
    ],
    topic: Annotated[params.Name, Query(description="The topic, as it is called there.")],
    period: params.Times,
) -> Response:
    """How late records of a topic came, by day (UTC): the settle time is learned of it."""
    end = now_ms() if period.end is None else period.end
    start = end - 30 * DAY if period.start is None else period.start

    def read(connection: Connection) -> list[Row]:
        found = latencies.lateness_series(connection, counter, topic, start, end)
        return [asdict(one) for one in found]

    return _series(request, LATENESS, read, (start, end, DAY))


def _series(
    request: Request,
    listing: Listing,
    read: Callable[[Connection], list[Row]],
    period: tuple[int, int, int],
) -> Response:
    """All rows of a period, with it and the length of its buckets (ms)."""
    with api_of(request).store.read() as connection:
        found = read(connection)
    start, end, length = period
    beside = {"start": start, "end": end, "bucket_ms": length}
    return lists.answer_whole(request, listing, found, beside)


def _heat_row(topic: str, cell: HeatCell) -> Row:
    sums = cell.sums
    return {
        "topic": topic,
        "start": cell.start,
        "state": cell.state,
        "windows": sum(sums.states.values()),
        "missing": sums.missing,
        "duplicates": sums.duplicates,
        "unclaimed": sums.unclaimed,
        "bad": sums.bad,
        "healed": cell.healed,
        "edge": cell.edge,
        "window": cell.window,
    }
