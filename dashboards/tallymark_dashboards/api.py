"""The same facts as JSON, and the live stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from tallymark_audit.store import queries
from tallymark_dashboards.context import context_of

router = APIRouter()


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Whether the process serves."""
    return {"status": "ok"}


@router.get("/api/v1/overview")
def overview(request: Request) -> list[dict[str, Any]]:
    """Every topic on every edge: states, sums in messages, watermark (ms) and its holes."""
    with context_of(request).store.read() as connection:
        return [asdict(one) for one in queries.overview(connection)]


@router.get("/api/v1/windows")
def windows(
    request: Request,
    edge: str | None = None,
    topic: str | None = None,
    start: int | None = None,
    end: int | None = None,
    state: Annotated[list[str], Query()] = [],  # noqa: B006  (FastAPI copies defaults)
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[dict[str, Any]]:
    """Verdicts, newest window first; ``start`` included, ``end`` excluded (ms UTC)."""
    with context_of(request).store.read() as connection:
        return queries.windows(connection, edge, topic, start, end, state, limit)


@router.get("/api/v1/evidence")
def evidence(request: Request, edge: str, topic: str, window: int) -> dict[str, Any]:
    """All that is known of one window: verdicts, both sides, reporters, history, repairs."""
    with context_of(request).store.read() as connection:
        found = queries.evidence(connection, edge, topic, window)
    if not found.verdicts:
        raise HTTPException(404, f"no verdict on {edge}, topic {topic}, window {window}")
    return asdict(found)


@router.get("/live", response_class=EventSourceResponse, include_in_schema=False)
async def live(
    request: Request, last_event_id: Annotated[str, Header()] = ""
) -> AsyncIterator[ServerSentEvent]:
    """``changed`` whenever there is something new to show."""
    async for event in context_of(request).changes.events(last_event_id):
        yield event
