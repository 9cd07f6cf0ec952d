"""Numbers of a period and courses over time, for charts: sums of verdicts, latencies, lateness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields, lists, params
from tallymark_audit.api.fields import (
    BALANCED,
    Field,
    Fields,
    number,
    row_schema,
    rows_schema,
    text,
    time,
)
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import AuditApi, api_of
from tallymark_audit.store.reading import latency as latencies
from tallymark_audit.store.reading.pulse import pulse as pulse_of
from tallymark_audit.store.reading.series import buckets as buckets_of
from tallymark_audit.store.reading.sums import Sums
from tallymark_audit.store.reading.worst import TopicSums, worst
from tallymark_audit.store.schema.rows import Row

DAY: Final = 86_400_000
MOST_BUCKETS: Final = 2_000
FEW: Final = 200
"""Buckets of an answer that names no length."""
LENGTHS: Final = (1, 5, 10, 30, 60, 180, 360, 720, 1_440, 10_080)
"""Minutes of a bucket that are offered."""
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
SUMS: Final[Fields] = {
    **BALANCED,
    "windows": number("Windows in all."),
    "bad": number("Windows that are wrong or UNKNOWN, and not accepted."),
    "accepted": number("Windows that are wrong or UNKNOWN, and were accepted."),
    "states": Field("object", "How many windows are in each state."),
}
BUCKET: Final[Fields] = {"start": time("The start of the bucket,"), **SUMS}
BUCKETS = Listing("buckets", BUCKET, {"start": int})
TOPIC: Final[Fields] = {
    "topic": text("The topic."),
    **SUMS,
    "through": time("The earliest of its watermarks (-1: none),"),
    "hops": Field("list", "The same of each edge by itself."),
}
TOPICS = Listing("topics", TOPIC, {"skip": int})
LATENCY = Listing("latency", counted_fields.PERCENTILES, {})
LATENESS = Listing("lateness", counted_fields.PERCENTILES, {})
_PERIOD: Final[Fields] = {
    "start": time("The period: from,"),
    "end": time("And up to, excluded,"),
    "bucket_ms": number("How long a bucket is (ms)."),
}


def _schema(listing: Listing) -> dict[str, Any]:
    return row_schema(_PERIOD, {listing.name: rows_schema(listing.fields)})


@lists.register(router, "/buckets", _schema(BUCKETS))
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
    start, end, length = _period(api_of(request), period, bucket)

    def read(connection: Connection) -> list[Row]:
        found = buckets_of(connection, edge, topic, start, end, length)
        return [{"start": one.start, **_sums(one.sums)} for one in found]

    return _series(request, BUCKETS, read, (start, end, length))


@lists.register(
    router,
    "/pulse",
    row_schema(
        {
            **SUMS,
            "start": time("The period: from,"),
            "end": time("And up to, excluded,"),
            "through": time("The earliest watermark (-1: none),"),
            "through_edge": text("The edge that has this watermark."),
            "through_topic": text("The topic that has it."),
            "topics": number("How many topics there are."),
            "hops": Field("object", "The same numbers of each edge by itself."),
        }
    ),
    csv=False,
)
def pulse(request: Request, period: params.Windows, topic: params.TopicName = None) -> Response:
    """The numbers of a period, of all topics or of one: each message counts once, claimed at the
    first hop of its topic, and missing, duplicated or unclaimed at the hop where that happened."""
    start, end = _within(period)
    with api_of(request).store.read() as connection:
        found = pulse_of(connection, start, end, topic)
    rest = {
        name: getattr(found, name)
        for name in ("start", "end", "through", "through_edge", "through_topic", "topics")
    }
    hops = {edge: _sums(sums) for edge, sums in found.hops.items()}
    return Answer({**_sums(found.sums), **rest, "hops": hops})


@lists.route(router, "/topics", TOPICS)
def topics(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    find: params.Find = "",
) -> Response:
    """The topics, the worst of the period (else: of the last day) first, then the others by name.
    The order may change from page to page."""
    start, end = _within(period)

    def read(connection: Connection, after: Any, most: int) -> Page:
        skip = min(max(0, after[0]), params.MOST_SKIPPED) if after else 0
        found = worst(connection, start, end, most, skip, find)
        rows = [_topic(one) for one in found.rows]
        more = skip + len(rows)
        return Page(rows, [more] if rows and more < found.topics else None)

    return lists.answer_page(request, TOPICS, read, asked)


@lists.register(router, "/latency", _schema(LATENCY))
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
    start, end, length = _period(api, period, bucket, 60 if topic is not None else 10)
    names = [one.name for one in api.deployment.clusters] if cluster is None else [cluster]

    def read(connection: Connection) -> list[Row]:
        found = latencies.latency_series(connection, names, topic, start, end, length)
        return [asdict(one) for one in found]

    return _series(request, LATENCY, read, (start, end, length))


@lists.register(router, "/lateness", _schema(LATENESS))
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
    if lists.wants_csv(request):
        return lists.as_csv(request, listing, lambda *_: Page(found), None, None)
    start, end, length = period
    body = {listing.name: found, "start": start, "end": end, "bucket_ms": length}
    return lists.varying(Answer(body))


def _within(period: params.Period) -> tuple[int, int]:
    """The period that was asked for; without an end up to now, without a start the day before."""
    end = now_ms() if period.end is None else period.end
    start = max(0, end - DAY) if period.start is None else period.start
    if start >= end:
        raise Problem(422, "to has to be after from", "mend the period")
    return start, end


def _period(
    api: AuditApi, period: params.Period, bucket: int | None, least_minutes: int = 0
) -> tuple[int, int, int]:
    """The period and the length of a bucket (ms)."""
    start, end = _within(period)
    least = max(api.deployment.audit.window_ms, least_minutes * 60_000)
    if bucket is None:
        offered = [least, *(minutes * 60_000 for minutes in LENGTHS)]
        fitting = [one for one in offered if one >= least and (end - start) / one <= FEW]
        bucket = min(fitting, default=max(least, -(-(end - start) // FEW)))
    if (end - start) / bucket > MOST_BUCKETS:
        raise Problem(
            422,
            f"the period has more than {MOST_BUCKETS:,} buckets of {bucket} ms",
            "give a longer bucket or a shorter period",
        )
    return start, end, bucket


def _topic(one: TopicSums) -> Row:
    hops = [
        {"edge": hop.edge, "through": hop.through, "horizon": hop.horizon, **_sums(hop.sums)}
        for hop in one.hops
    ]
    return {"topic": one.topic, **_sums(one.sums), "through": one.through, "hops": hops}


def _sums(sums: Sums) -> Row:
    return {**asdict(sums), "states": dict(sums.states), "windows": sums.windows}
