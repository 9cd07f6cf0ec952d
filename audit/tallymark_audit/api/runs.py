"""What ran and was decided: runs of jobs, repairs, what people decided, tables that are loaded."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark_audit.api import happened_fields as told
from tallymark_audit.api import lists, params
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import api_of
from tallymark_audit.store.reading import records
from tallymark_audit.store.reading import runs as reading
from tallymark_audit.store.schema.rows import Row

router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
ID: Final = {"id": int}
RUNS = Listing("runs", told.RUN, ID)
RUN_HOPS = Listing("hops", told.RUN_HOP, {"edge": str, "topic": str})
REPAIRS = Listing("repairs", told.REPAIR, ID)
DECISIONS = Listing("decisions", told.DECISION, ID)
LAKE_TABLES = Listing(
    "lake_tables", told.LAKE_TABLE, {"last_load": int, "cluster": str, "table": str}
)
Number = Annotated[int, Path(ge=1, le=params.LARGEST, description="Its number.")]


@lists.route(router, "/runs", RUNS)
def runs(
    request: Request,
    asked: params.Paged,
    period: params.Times,
    job: params.Names = [],  # noqa: B006
) -> Response:
    """Runs of jobs (reconciliations, loads), the newest first."""
    which = records.WhichRecords(*period, kinds=job)
    return lists.answer(request, RUNS, lists.by_number(records.job_run_page, which), asked)


@lists.route(router, "/runs/{number}/hops", RUN_HOPS)
def run_hops(request: Request, number: Number, asked: params.Paged) -> Response:
    """What a run of a job judged: each topic on each hop, by their names."""
    with api_of(request).store.read() as connection:
        found = reading.job_run(connection, number)
    if found is None:
        raise Problem(404, f"there is no run {number}", "list them: /api/v1/audit/runs")
    return lists.answer_rows(request, RUN_HOPS, reading.judged_hops(found), asked)


@lists.route(router, "/repairs", REPAIRS)
def repairs(
    request: Request,
    asked: params.Paged,
    period: params.Times,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
    outcome: params.Names = [],  # noqa: B006
) -> Response:
    """What repairs did, a row a producer run and window, the newest first."""
    which = records.WhichRecords(*period, None, topic, edge, outcome)
    return lists.answer(request, REPAIRS, lists.by_number(records.repair_page, which), asked)


@lists.route(router, "/decisions", DECISIONS)
def decisions(
    request: Request,
    asked: params.Paged,
    period: params.Times,
    action: Annotated[
        list[Literal["accept", "withdraw", "retire", "pause", "resume", "repair"]],
        Query(description="Only these."),
    ] = [],  # noqa: B006
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
) -> Response:
    """What people decided and started, each with its author, the newest first: windows that were
    accepted, reporters that were retired, pauses of alerts, repairs."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        before = key[0] if key else None
        which = reading.DecisionsAsked(action, edge or "", topic or "", None, *period, before)
        return reading.decision_page(connection, which, most)

    return lists.answer(request, DECISIONS, read, asked)


@lists.route(router, "/decisions/{number}/repairs", REPAIRS)
def repairs_of_decision(request: Request, number: Number, asked: params.Paged) -> Response:
    """The parts of a repair that a person has begun, the earliest first."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        found = reading.decision(connection, number)
        if found is None:
            do = "list them: /api/v1/audit/decisions"
            raise Problem(404, f"there is no decision {number}", do)
        if found["action"] != reading.REPAIR:
            return []
        return reading.repaired_by(connection, found, most, key[0] if key else 0)

    return lists.answer(request, REPAIRS, read, asked)


@lists.route(router, "/lake-tables", LAKE_TABLES)
def lake_tables(request: Request, asked: params.Paged) -> Response:
    """The tables of the lake, that one first which was loaded longest ago."""

    def read(connection: Connection, key: Any, most: int) -> list[Row]:
        return reading.loaded_tables(connection, most, key)

    return lists.answer(request, LAKE_TABLES, read, asked)
