"""Errors: a page with navigation for a browser, JSON for programs and the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fastapi import FastAPI, Request
from fastapi.exception_handlers import (
    http_exception_handler,
    request_validation_exception_handler,
)
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tallymark.clock import now_ms
from tallymark.net.web.refusal import wants_page
from tallymark_audit.model.time_format import utc
from tallymark_dashboards.app.middleware import HEADERS
from tallymark_dashboards.frame.age import MOST_SAID, why_away
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.navigation import ORDER
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, page_at
from tallymark_dashboards.frame.rendering import composed, document, fragment
from tallymark_dashboards.frame.requests import context_of, links_of, prefix_of, user_of
from tallymark_dashboards.frame.time_range import time_range
from tallymark_dashboards.live.renderings import Renderings

PROGRAMS = ("/api/", "/fragment/", "/static/", "/live")
"""Errors below these are JSON, also for a browser."""


def handle_errors(app: FastAPI) -> None:
    """Let these functions answer errors."""
    app.add_exception_handler(SQLAlchemyError, _store_is_away)
    app.add_exception_handler(HTTPException, _no_page)
    app.add_exception_handler(RequestValidationError, _no_such_values)
    app.add_exception_handler(Exception, _unexpected)


async def _store_is_away(request: Request, error: Exception) -> Response:
    text = why_away(error)
    retry = {"Retry-After": "2"}
    if not _for_a_person(request):
        return JSONResponse({"detail": text}, 503, retry)
    return error_page(
        request, _failed(503, "Not just now", text, _shown_all_the_same(request)), retry
    )


def _shown_all_the_same(request: Request) -> list[Near]:
    """What a person can look at while the store is away: this page as it was shown before, with
    other values; and the pages of brokers and the registry."""
    asked = page_at(request.url.path)
    renderings: Renderings = request.app.state.renderings
    near: list[Near] = []
    if asked is not None:
        what = asked.nav if asked.name in ORDER else asked.name.capitalize()
        for query, at in renderings.kept_at(asked.path, user_of(request), prefix_of(request)):
            text = f"{what} as of {utc(at)} ({_said(query) or 'no filter'})"
            near.append(Near(text, asked.name, dict(query)))
    pages = (PAGES[name] for name in ORDER if name in PAGES)
    return near + [Near(one.nav, one.name) for one in pages if not one.needs_store]


def _said(query: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in query)[:MOST_SAID]


async def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of ours. The server logs it with its traceback; a person sees what to do."""
    if not _for_a_person(request):
        return JSONResponse({"detail": "internal error"}, 500, HEADERS)
    hint = "The log of the dashboards says why. The command line shows the same: tallymark audit."
    page = _failed(500, "This page could not be made", type(error).__name__, hint=hint)
    return error_page(request, page, HEADERS)


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not _for_a_person(request):
        return await http_exception_handler(request, error)
    if error.status_code == 404:
        return error_page(request, _unknown_path(request), error.headers)
    page = _failed(error.status_code, "This is refused", str(error.detail))
    return error_page(request, page, error.headers)


async def _no_such_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if not _for_a_person(request):
        return await request_validation_exception_handler(request, error)
    wrong = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()[:5])
    return error_page(request, _failed(422, "This address cannot be read", wrong))


def error_page(request: Request, page: Page, headers: Mapping[str, str] | None = None) -> Response:
    """A page that no page function made, with the navigation. It reads nothing."""
    context, now = context_of(request), now_ms()
    one = composed(context, page, links_of(request), time_range({}, now)[0], user_of(request))
    shown = fragment(context, one)
    html = document(context, one, shown, now)
    return HTMLResponse(html, page.status, dict(headers or {}))


def _unknown_path(request: Request) -> Page:
    asked = request.url.path[:MOST_SAID]
    by_path = {one.path: one for one in PAGES.values() if one.nav}
    near = [Near(path, by_path[path].name) for path in nearest(asked, by_path) if path != "/"]
    return missing("page", asked, near)


def _failed(status: int, title: str, text: str, near: Sequence[Near] = (), hint: str = "") -> Page:
    said = f"{text[:1].upper()}{text[1:].rstrip('.')}."
    values = {"title": title, "said": said, "near": near, "hint": hint}
    return Page(title, "pages/failed.html", values, tone="warn", status=status)


def _for_a_person(request: Request) -> bool:
    path = request.url.path
    return not path.startswith(PROGRAMS) and wants_page(request.headers.get("accept", ""))
