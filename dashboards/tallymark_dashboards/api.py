"""Health, metrics and the live stream. The audit's own API is in
:mod:`tallymark_audit.api`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tallymark_dashboards.context import context_of

router = APIRouter()


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Report that the process serves requests."""
    return {"status": "ok"}


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """The audit's metrics for Prometheus."""
    body = generate_latest(context_of(request).metrics)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


@router.get("/live", response_class=EventSourceResponse, include_in_schema=False)
async def live(
    request: Request, last_event_id: Annotated[str, Header()] = ""
) -> AsyncIterator[ServerSentEvent]:
    """The event ``changed`` whenever the store has changed."""
    async for event in context_of(request).changes.events(last_event_id):
        yield event
