"""What counts and reports, and how far that is: reporters, consumer groups, collectors, the age of
the audit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.api import counted_fields as told
from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import REPORTER, row_schema, rows_schema
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Answer, AuditRoute
from tallymark_audit.api.state import AuditApi, api_of
from tallymark_audit.store.reading import paging, queries, records
from tallymark_audit.store.reading.age import audit_age
from tallymark_audit.store.schema.rows import Row

router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
REPORTERS = Listing("reporters", REPORTER, {"cluster": str, "reporter": str})
GROUPS = Listing("groups", told.GROUP, {"cluster": str, "group": str, "topic": str})
COLLECTORS = Listing("collectors", told.COLLECTOR, {"cluster": str})
PROGRESS = Listing("progress", told.PROGRESS, {"cluster": str, "topic": str, "partition": int})


@lists.route(router, "/reporters", REPORTERS)
def reporters(
    request: Request,
    asked: params.Paged,
    cluster: params.ClusterName = None,
    kind: Annotated[
        Literal["producer", "consumer", "mirror", "lake"] | None,
        Query(description="Only of this kind."),
    ] = None,
    live: Annotated[
        bool,
        Query(description="Only those that are heard of: not closed, not retired, not silent."),
    ] = False,
    topic: params.TopicName = None,
) -> Response:
    """The reporters, with the time of the last report and the time up to which all reports have
    arrived (ms), in ``reporters``; ``next`` is the cursor of the next page, null on the last."""
    since = now_ms() - api_of(request).deployment.audit.silence_ms if live else None

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return paging.reporter_page(connection, cluster, kind, since, key, most, topic)

    return lists.answer(request, REPORTERS, read, asked)


@lists.route(router, "/groups", GROUPS)
def groups(
    request: Request,
    asked: params.Paged,
    cluster: params.ClusterName = None,
    group: Annotated[
        params.Text | None, Query(max_length=params.MAX_NAME, description="Only this group.")
    ] = None,
    topic: params.TopicName = None,
) -> Response:
    """The consumer groups that report what they have processed, by cluster, group and topic: their
    runs, when their last event came, and how far the hop to them is complete (ms)."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return records.group_page(connection, cluster, group, topic, key, most)

    return lists.answer(request, GROUPS, read, asked)


_AGE: Final = row_schema(
    told.AGE,
    {"behind": rows_schema(told.SILENT, "The clusters for which it is not.")},
)


@lists.register(router, "/age", _AGE, csv=False)
def age(request: Request) -> Response:
    """How old the audit is: up to when every cluster is counted, against the clock. While it is not
    ``ok``, what verdicts say of later windows is not known: nothing is judged there."""
    api = api_of(request)
    with api.store.read() as connection:
        return Answer(age_now(api, connection))


def age_now(api: AuditApi, connection: Connection) -> Row:
    """The age of the audit as an answer has it."""
    found = audit_age(connection, api.deployment, now_ms())
    return {**asdict(found), "ok": found.ok}


_WITH_AGE: Final = row_schema(
    {},
    {
        "collectors": rows_schema(told.COLLECTOR),
        "next": {"type": "null", "description": "There is one page."},
        "age": _AGE,
    },
)


@lists.register(router, "/collectors", _WITH_AGE)
def collectors(request: Request) -> Response:
    """The collector in charge of each cluster, and when it last committed (ms); beside them the
    ``age`` of the audit, as ``/age`` has it."""
    api = api_of(request)
    with api.store.read() as connection:
        rows = queries.all_collectors(connection)
        found = age_now(api, connection)
    return lists.answer_whole(request, COLLECTORS, rows, {"age": found})


@lists.route(router, "/progress", PROGRESS)
def progress(
    request: Request,
    asked: params.Paged,
    cluster: params.ClusterName = None,
    topic: params.TopicName = None,
) -> Response:
    """How far each partition is counted, by cluster, topic and partition."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return records.progress_page(connection, cluster, topic, key, most)

    return lists.answer(request, PROGRESS, read, asked)
