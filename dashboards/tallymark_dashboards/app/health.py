"""Health, metrics and the live stream. The audit's own API is in
:mod:`tallymark_audit.api`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import now_ms
from tallymark_dashboards.frame.requests import context_of, prefix_of, user_of
from tallymark_dashboards.live.feeds import MAX_DIGEST
from tallymark_dashboards.live.stream import LiveResponse, address_of, plain_error

router = APIRouter()


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Report that the process serves requests."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    """Report whether the dashboards show what is: 200 while the store answers and the audit is not
    behind, else 503. It needs no log-in, so it names neither clusters nor collectors."""
    context = context_of(request)
    try:
        with context.store.read() as connection:
            age = context.ages.at(connection, now_ms())
    except SQLAlchemyError:
        return _not_ready("the audit store cannot be read")
    if not age.ok:
        return _not_ready("the audit is behind: a collector is silent, or has not counted all")
    return JSONResponse({"status": "ready"})


def _not_ready(why: str) -> JSONResponse:
    return JSONResponse({"status": "not ready", "why": why}, 503, {"Retry-After": "5"})


@router.get("/metrics", response_class=Response)
def metrics(request: Request) -> Response:
    """The audit's metrics for Prometheus."""
    body = generate_latest(context_of(request).metrics)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> JSONResponse:
    """The description of the API, with the prefix below which the client sees it."""
    document, prefix = request.app.openapi(), prefix_of(request)
    return JSONResponse({**document, "servers": [{"url": prefix}]} if prefix else document)


@router.get("/live", response_class=Response, include_in_schema=False)
async def live(
    request: Request,
    page: Annotated[str, Query()] = "/",
    have: Annotated[str, Query()] = "",
    last_event_id: Annotated[str, Header()] = "",
    accept_encoding: Annotated[str, Header()] = "",
) -> Response:
    """The events of a page (:mod:`tallymark_dashboards.live.wire`). ``page``: its path and query.
    ``have``: the digest of what it shows; a browser that connects again by itself names the last
    event instead."""
    try:
        address = address_of(page, user_of(request), prefix_of(request))
    except LookupError as error:
        return plain_error(404, str(error))
    has = (last_event_id or have)[:MAX_DIGEST]
    return LiveResponse(request.app.state.hub, address, has, accept_encoding)
