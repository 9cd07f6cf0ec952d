"""The resources: verdicts, cells, evidence, reporters, alerts; watermarks and totals have modules
of their own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request

from tallymark.clock import now_ms
from tallymark_audit.api import params, totals, watermarks
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import api_of
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.time_format import LARGEST
from tallymark_audit.store.reading import paging, queries, window_evidence
from tallymark_audit.store.schema.rows import shown_verdict

PREFIX: Final = "/api/v1/audit"
MAX_WINDOWS: Final = 100
"""Windows of cells in one answer ..."""
MAX_CELLS: Final = 5_000
"""... and cells."""
MAX_TOPICS: Final = 10_000
router = APIRouter(route_class=AuditRoute, default_response_class=Answer, tags=["audit"])


@router.get("/overview")
def overview(
    request: Request,
    start: params.From = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_TOPICS, description="At most so many in one answer.")
    ] = MAX_TOPICS,
    cursor: params.Cursor = "",
) -> Answer:
    """Every topic on every edge: windows by state, sums in messages, how far it is complete (ms).

    ``through`` and ``horizon`` are -1 where there is no watermark yet. Where there is more than
    ``limit``, the header ``Link`` names the next page (``rel="next"``)."""
    after = tuple(params.key_of(cursor, str, str) or ("", ""))
    with api_of(request).store.read() as connection:
        found = queries.overview(connection, start, now_ms())
    rest = [one for one in found if (one.edge, one.topic) > after]
    answer = Answer([asdict(one) for one in rest[:limit]])
    if len(rest) > limit:
        last = rest[limit - 1]
        following = request.url.include_query_params(
            cursor=params.cursor_of([last.edge, last.topic]), limit=limit
        )
        answer.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return answer


@router.get("/verdicts")
def verdicts(
    request: Request,
    edge: params.EdgeName = None,
    topic: params.TopicName = None,
    state: Annotated[list[State], Query(description="Only these states.")] = [],  # noqa: B006
    start: params.From = None,
    end: params.To = None,
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
) -> Answer:
    """The effective verdict of each window, newest window first, in ``verdicts``; ``next`` is the
    cursor of the next page, null on the last. Counts are messages, times ms. While a window is OPEN
    or SETTLING, messages that have not arrived are ``pending``, and none is ``missing``."""
    key = params.key_of(cursor, int, str, str)
    which = paging.Which(edge, topic, [str(one) for one in state], start, end)
    after = (key[0], key[1], key[2]) if key else None
    with api_of(request).store.read() as connection:
        found = paging.verdict_page(connection, which, after, limit)
    rows = [shown_verdict(row) for row in found]
    return _page("verdicts", rows, limit, ("window", "edge", "topic"))


@router.get("/cells")
def cells(
    request: Request,
    cluster: Annotated[params.Name, Query(description="Where it was counted or reported.")],
    topic: Annotated[params.Name, Query(description="The topic.")],
    tier: Annotated[
        Literal["producer", "cluster", "consumer", "lake"],
        Query(description="Who counted: producers, the cluster's collector, consumers, loads."),
    ] = "cluster",
    start: params.From = None,
    end: params.To = None,
    windows: Annotated[
        int, Query(ge=1, le=MAX_WINDOWS, description="At most so many windows in one answer.")
    ] = 10,
    cursor: params.Cursor = "",
) -> Answer:
    """What was counted of each producer run in each window, oldest window first, so many cells a
    page. ``ranges``, ``accepted`` and the like are sequences as flat ranges: first, last, first,
    last. Latencies are sketches of ms, hashes of 64 bits may need more than a double holds."""
    after = params.cell_key_of(cursor)
    first = after[0] + (len(after) == 1) if after else start or -LARGEST
    last = LARGEST if end is None else end
    with api_of(request).store.read() as connection:
        found = paging.cell_windows(connection, cluster, topic, tier, first, last, windows)
        page = paging.cell_page(connection, cluster, topic, tier, found, after[1:], MAX_CELLS)
    more = page.after or ([found[-1]] if len(found) == windows else None)
    return Answer({"cells": page.rows, "next": params.cursor_of(more) if more else None})


@router.get("/evidence")
def evidence(
    request: Request,
    edge: Annotated[params.Name, Query(description="The edge, as in producer-to-dc1.")],
    topic: Annotated[params.Name, Query(description="The topic, as it is called upstream.")],
    window: Annotated[params.Moment, Query(description="The start of the window.")],
    limit: params.Limit = 500,
) -> Answer:
    """About one window: ``verdicts`` (the effective one first) whose ``cells`` name what is
    missing, where it is ``located``, the ``copies`` and blocks; both sides; ``reporters``; what
    happened (``incidents``), the revisions (``history``), and ``repairs``. Each list has ``limit``
    rows at most, and is bounded in bytes; ``left_out`` says how many there are besides, and
    ``/cells`` gives all cells of a window in pages."""
    with api_of(request).store.read() as connection:
        found = window_evidence.shown_evidence(
            window_evidence.evidence(connection, edge, topic, window, limit)
        )
    if not found.verdicts:
        raise Problem(
            404,
            f"there is no verdict on {edge}, topic {topic}, window {window}",
            f"list them: {PREFIX}/verdicts",
        )
    return Answer(asdict(found))


@router.get("/reporters")
def reporters(
    request: Request,
    cluster: params.ClusterName = None,
    kind: Annotated[
        Literal["producer", "consumer", "mirror", "lake"] | None,
        Query(description="Only of this kind."),
    ] = None,
    live: Annotated[
        bool,
        Query(description="Only those that are heard of: not closed, not retired, not silent."),
    ] = False,
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
) -> Answer:
    """The reporters, with the time of the last report and the time up to which all reports have
    arrived (ms), in ``reporters``; ``next`` is the cursor of the next page, null on the last."""
    key = params.key_of(cursor, str, str)
    after = (key[0], key[1]) if key else None
    api = api_of(request)
    silent = now_ms() - api.deployment.audit.silence_ms
    with api.store.read() as connection:
        since = silent if live else None
        rows = paging.reporter_page(connection, cluster, kind, since, after, limit)
    return _page("reporters", rows, limit, ("cluster", "reporter"))


@router.get("/alerts")
def alerts(
    request: Request,
    status: Annotated[
        list[Literal["pending", "firing", "resolved"]], Query(description="Only these.")
    ] = [],  # noqa: B006
    limit: params.Limit = 100,
    cursor: params.Cursor = "",
) -> Answer:
    """Alerts, the newest first, in ``alerts``: start and end (ms), the last status that was posted
    to the webhook (``told``) and when; ``next`` is the cursor of the next page, null on the
    last."""
    key = params.key_of(cursor, int, str)
    after = (key[0], key[1]) if key else None
    with api_of(request).store.read() as connection:
        rows = paging.alert_page(connection, status, after, limit)
    return _page("alerts", rows, limit, ("starts_at", "fingerprint"))


router.add_api_route("/watermarks", watermarks.all_of_them, methods=["GET"], name="watermarks")
router.add_api_route(
    "/watermarks/{edge:path}/{topic}", watermarks.one, methods=["GET"], name="watermark"
)
router.add_api_route("/totals", totals.totals, methods=["GET"])


@router.get("/{rest:path}", include_in_schema=False)
def nothing(rest: str) -> Answer:
    """Every other path."""
    raise Problem(404, f"there is no {PREFIX}/{rest[:100]}", "see /openapi.json")


def _page(name: str, rows: list[dict[str, Any]], limit: int, key: tuple[str, ...]) -> Answer:
    more = params.cursor_of([rows[-1][part] for part in key]) if len(rows) == limit else None
    return Answer({name: rows, "next": more})
