"""The pages. Each works without JavaScript. When the store has changed, a page replaces its
changing part by the fragment under ``/fragment``, which is made from the same template."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from tallymark.clock import now_ms
from tallymark_audit.model.time_format import LARGEST, utc
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_dashboards import view
from tallymark_dashboards.context import Context, context_of
from tallymark_dashboards.marks import MARKS

PAGE = 50
"""Topics on one page of the overview."""
CELLS = 100
"""Cells of a verdict, and rows of each side, that a page shows; the JSON has more."""
MAX_NAME = 300
_NUMBER = re.compile(r"-?\d{1,19}", re.ASCII)

router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, q: str = "", page: int = Query(1, ge=1, le=100_000)) -> Response:
    """Every topic on every edge, the worst first."""
    return _render(request, "overview.html", _overview(context_of(request), q, page))


@router.get("/fragment/overview", response_class=HTMLResponse)
def overview_fragment(
    request: Request, q: str = "", page: int = Query(1, ge=1, le=100_000)
) -> Response:
    """The changing part of the overview."""
    return _render(request, "_overview.html", _overview(context_of(request), q, page))


@router.get("/window", response_class=HTMLResponse)
def window(request: Request, edge: str, topic: str, window: str) -> Response:
    """The evidence of one window."""
    return _render(request, "window.html", _evidence(context_of(request), edge, topic, window))


@router.get("/fragment/window", response_class=HTMLResponse)
def window_fragment(request: Request, edge: str, topic: str, window: str) -> Response:
    """The changing part of the evidence."""
    return _render(request, "_window.html", _evidence(context_of(request), edge, topic, window))


def _render(request: Request, template: str, values: dict[str, Any]) -> Response:
    context = context_of(request)
    now = now_ms()
    shared = {
        "deployment": context.deployment,
        "now": utc(now),
        "now_ms": now,
        "htmx": context.has_htmx,
        "version": context.version,
        "marks": MARKS,
    }
    # A window that was never judged is answered with 404, and still with a page that says so.
    status = 404 if values.get("unknown") else 200
    return context.templates.TemplateResponse(
        request, template, {**shared, **values}, status_code=status
    )


def _overview(context: Context, q: str, page: int) -> dict[str, Any]:
    window_ms, now = context.deployment.audit.window_ms, now_ms()
    with context.store.read() as connection:
        all_of_them = queries.overview(connection, now=now)
        summaries = [view.up_to_now(one, now, window_ms) for one in all_of_them]
        found = [one for one in summaries if q.lower() in f"{one.edge} {one.topic}".lower()]
        shown = view.worst_first(found)[(page - 1) * PAGE : page * PAGE]
        rows = [
            view.topic_row(one, _strip_windows(connection, one, window_ms), window_ms)
            for one in shown
        ]
        return {
            "pulse": view.pulse(summaries),
            "rows": rows,
            "q": q,
            "page": page,
            "pages": max(1, -(-len(found) // PAGE)),
            "reporters": queries.all_reporters(connection, live_only=True, limit=PAGE),
            "incidents": queries.all_incidents(connection, 10),
            "runs": queries.all_runs(connection, 8),
            "disagreements": queries.disagreements(connection, 20),
            "fragment": f"/fragment/overview?{urlencode({'q': q, 'page': page})}",
        }


def _strip_windows(connection: Any, one: queries.TopicSummary, window_ms: int) -> list[Any]:
    start = one.last_window - (view.STRIP - 1) * window_ms
    place = one.edge, one.topic
    return queries.windows(connection, *place, start=start, limit=view.STRIP, cells=False)


def _evidence(context: Context, edge: str, topic: str, window: str) -> dict[str, Any]:
    place = {"edge": edge[:MAX_NAME], "topic": topic[:MAX_NAME]}
    start = _start_of(window)
    if start is None or not (edge + topic).isprintable():
        return {
            **place,
            "window": 0,
            "window_end": 0,
            "unknown": True,
            "fragment": "",
            "said": window[:MAX_NAME],
        }
    with context.store.read() as connection:
        found = window_evidence.evidence(connection, edge, topic, start, CELLS)
    evidence = window_evidence.shown_evidence(found)
    return {
        **place,
        "window": start,
        "window_end": start + context.deployment.audit.window_ms,
        "unknown": not evidence.verdicts,
        "disagreement": view.disagreement(evidence.verdicts),
        "fragment": view.evidence_href(edge, topic, start, "/fragment/window"),
        "json_href": view.evidence_href(edge, topic, start, "/api/v1/audit/evidence"),
        **asdict(evidence),
    }


def _start_of(window: str) -> int | None:
    """The start of a window (ms) from the text in a URL; None: no window can start then."""
    if _NUMBER.fullmatch(window) is None or abs(int(window)) > LARGEST:
        return None
    return int(window)
