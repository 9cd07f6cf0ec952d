"""The application: routes, static files, headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exception_handlers import (
    http_exception_handler,
    request_validation_exception_handler,
)
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tallymark.deployment import Deployment
from tallymark.net.web.refusal import refusal_page, wants_page
from tallymark_audit.api import PREFIX, AuditApi
from tallymark_audit.api import router as audit_router
from tallymark_audit.store import Store
from tallymark_dashboards import api, pages
from tallymark_dashboards.context import STATIC, Context

HEADERS = {
    # Everything that a page loads comes from this server; inline scripts and styles do not run.
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def create_app(deployment: Deployment, store: Store) -> FastAPI:
    """The dashboards of one deployment over its audit store."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.context.changes.stopping.set()
        app.state.audit_api.waits.stop()

    app = FastAPI(
        title="Tallymark dashboards",
        lifespan=lifespan,
        # Swagger's page loads its scripts from another site; tools can read /openapi.json.
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = Context.of(deployment, store)
    app.state.audit_api = AuditApi.of(deployment, store)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.include_router(api.router)
    app.include_router(audit_router, prefix=PREFIX)
    app.include_router(pages.router)
    app.middleware("http")(_with_headers)
    app.add_exception_handler(SQLAlchemyError, _store_is_away)
    app.add_exception_handler(HTTPException, _no_page)
    app.add_exception_handler(RequestValidationError, _no_such_values)
    return app


async def _with_headers(
    request: Request, handle: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await handle(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if not request.url.path.startswith("/static/"):
        response.headers.setdefault("Cache-Control", "no-store")
    return response


async def _store_is_away(request: Request, error: Exception) -> Response:
    cause = getattr(error, "orig", None) or error
    text = f"the audit store cannot be read now: {cause}"
    retry = {"Retry-After": "2"}
    return _for_a_person(request, 503, text, retry) or JSONResponse({"detail": text}, 503, retry)


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"nothing is at {request.url.path[:300]!r}" if error.status_code == 404 else error.detail
    page = _for_a_person(request, error.status_code, text, error.headers)
    return page or await http_exception_handler(request, error)


async def _no_such_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()[:5])
    page = _for_a_person(request, 422, wrong)
    return page or await request_validation_exception_handler(request, error)


def _for_a_person(
    request: Request, status: int, text: str, headers: Mapping[str, str] | None = None
) -> Response | None:
    """The error as a page for a browser that asks for one; None for programs and the API, which get
    JSON."""
    path = request.url.path
    if path.startswith(("/api/", "/fragment/")) or not wants_page(
        request.headers.get("accept", "")
    ):
        return None
    body, own = refusal_page(status, text, home=True)
    return Response(body, status, {**own, **(headers or {})})
