"""What happened: incidents, alerts, log events, disagreements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark_audit.alerts.about import fingerprints
from tallymark_audit.api import happened_fields as told
from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import ALERT, Field, row_schema, rows_schema
from tallymark_audit.api.lists import Listing, answer
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import api_of
from tallymark_audit.store.judged import alerts as stored_alerts
from tallymark_audit.store.reading import incidents as reading
from tallymark_audit.store.reading import paging, records
from tallymark_audit.store.reading.timeline import timeline
from tallymark_audit.store.schema.rows import Row

router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
ID: Final = {"id": int}
INCIDENTS = Listing("incidents", told.INCIDENT, {"opened_at": int, "id": int})
WINDOWS = Listing("windows", told.INCIDENT_WINDOW, {"window": int})
TIMELINE = Listing("timeline", told.MOMENT, {})
ALERTS = Listing("alerts", ALERT, {"starts_at": int, "fingerprint": str})
LOG_EVENTS = Listing("log_events", told.LOG_EVENT, ID)
DISAGREEMENTS = Listing(
    "disagreements", told.DISAGREEMENT, {"window": int, "edge": str, "topic": str}
)
FIRST_WINDOWS: Final = 200
Number = Annotated[int, Path(ge=1, le=params.LARGEST, description="The number of the incident.")]


@lists.route(router, "/incidents", INCIDENTS)
def incidents(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    state: Annotated[
        list[Literal["OPEN", "ACCEPTED", "REPAIRED", "EXPLAINED", "RESOLVED"]],
        Query(description="Only these."),
    ] = [],  # noqa: B006
    kind: Annotated[
        list[Literal["LOSS", "DUPLICATION", "CORRUPT", "MIXED", "UNCLAIMED", "UNKNOWN"]],
        Query(description="Only these."),
    ] = [],  # noqa: B006
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
    find: params.Find = "",
) -> Response:
    """Incidents, the newest first: runs of bad windows of a topic on an edge, from first sight to
    their end. They stay after the windows are good again. ``from`` and ``to`` choose those that
    were open or had a window then."""
    which = reading.WhichIncidents(list(state), list(kind), edge, topic, *period, find)

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return [asdict(one) for one in reading.incident_page(connection, which, key, most)]

    return answer(request, INCIDENTS, read, asked)


_ONE: Final = {
    "incident": row_schema(told.INCIDENT),
    "windows": rows_schema(told.INCIDENT_WINDOW, "Its first windows; /windows has all."),
    "timeline": rows_schema(told.MOMENT, "What happened, the earliest first."),
}


@lists.register(router, "/incidents/{number}", row_schema({}, _ONE), csv=False)
def incident(request: Request, number: Number) -> Response:
    """One ``incident``; its first ``windows``; and its ``timeline``: verdicts, alerts, log events,
    runs and repairs in one order of time. An incident that was merged into another is that one."""
    with api_of(request).store.read() as connection:
        found = _incident(connection, number)
        windows = reading.windows_of(connection, found.id, None, FIRST_WINDOWS)
        moments = timeline(connection, found, fingerprints(found.edge, found.topic))
    return Answer(
        {
            "incident": asdict(found),
            "windows": [asdict(one) for one in windows],
            "timeline": [asdict(one) for one in moments],
        }
    )


@lists.route(router, "/incidents/{number}/windows", WINDOWS)
def incident_windows(
    request: Request,
    number: Number,
    asked: params.Paged,
) -> Response:
    """The windows of an incident, the earliest first."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        found = _incident(connection, number)
        windows = reading.windows_of(connection, found.id, key[0] if key else None, most)
        return [asdict(one) for one in windows]

    return answer(request, WINDOWS, read, asked)


@lists.route(router, "/incidents/{number}/timeline", TIMELINE)
def incident_timeline(request: Request, number: Number) -> Response:
    """What happened in an incident, the earliest first; of one kind the last 200."""
    with api_of(request).store.read() as connection:
        found = _incident(connection, number)
        moments = timeline(connection, found, fingerprints(found.edge, found.topic))
    return lists.answer_whole(request, TIMELINE, [asdict(one) for one in moments])


def _incident(connection: Connection, number: int) -> reading.WindowIncident:
    found = reading.incident(connection, number)
    if found is None:
        raise Problem(404, f"there is no incident {number}", "list them: /api/v1/audit/incidents")
    return found


_PAUSED: Final = {
    "paused_until": Field("number", "Until then (ms UTC) nothing is posted; null: no pause.", True)
}


@lists.route(router, "/alerts", ALERTS, _PAUSED)
def alerts(
    request: Request,
    asked: params.Paged,
    period: params.Times,
    status: Annotated[
        list[Literal["pending", "firing", "resolved"]], Query(description="Only these.")
    ] = [],  # noqa: B006
    rule: Annotated[
        params.Text | None,
        Query(max_length=params.MAX_NAME, description="Only those that this rule found."),
    ] = None,
) -> Response:
    """Alerts, the newest first, in ``alerts``: start and end (ms), the last status that was posted
    to the webhook (``told``) and when; ``next`` is the cursor of the next page, null on the last.
    ``from`` and ``to`` choose those that held then. ``paused_until``: the end of a pause that goes
    on; ``/decisions?action=pause`` has all."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return paging.alert_page(connection, status, key, most, rule, period)

    return answer(request, ALERTS, read, asked, _pause)


def _pause(connection: Connection) -> Mapping[str, Any]:
    until = stored_alerts.paused_until(connection)
    return {"paused_until": until if until > now_ms() else None}


@lists.route(router, "/log-events", LOG_EVENTS)
def log_events(
    request: Request,
    asked: params.Paged,
    period: params.Times,
    cluster: params.ClusterName = None,
    topic: params.TopicName = None,
    kind: params.Names = [],  # noqa: B006
) -> Response:
    """What happened to logs and reports that counting cannot mend, the newest first: truncated,
    expired and re-created logs, gaps of mirrors, bad events."""
    which = records.WhichRecords(*period, cluster, topic, None, kind)
    return answer(request, LOG_EVENTS, lists.by_number(records.log_event_page, which), asked)


@lists.route(router, "/disagreements", DISAGREEMENTS)
def disagreements(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
) -> Response:
    """Windows on which the collector and the reconciliation count differently, though both saw the
    same data: a fault of the audit itself. The newest first."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return records.disagreement_page(connection, edge, topic, key, most, period)

    return answer(request, DISAGREEMENTS, read, asked)
