"""A route for each page that is registered, and one for its fragment."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from tallymark.clock import now_ms
from tallymark_dashboards.frame.registry import PAGES, PageEntry
from tallymark_dashboards.frame.rendering import document, render
from tallymark_dashboards.frame.requests import (
    context_of,
    links_of,
    pairs_of,
    prefix_of,
    user_of,
)
from tallymark_dashboards.live.renderings import Renderings
from tallymark_dashboards.pages import load_pages

METHODS = ["GET", "HEAD"]
MOVED = {"/topics": "overview"}
"""Addresses that lead to a page of another name."""


def router() -> APIRouter:
    """All pages."""
    load_pages()
    routes = APIRouter(include_in_schema=False)
    for entry in PAGES.values():
        routes.add_api_route(entry.path, _shown(entry), methods=METHODS, name=entry.name)
    for path, name in MOVED.items():
        routes.add_api_route(path, _moved(name), methods=METHODS)
    routes.add_api_route("/fragment/{name}", page_fragment, methods=METHODS)
    return routes


def page_fragment(request: Request, name: str) -> Response:
    """The changing part of a page alone."""
    if name not in PAGES:
        raise HTTPException(404)
    context, asked = context_of(request), pairs_of(request)
    user, prefix = user_of(request), prefix_of(request)
    shown = render(context, PAGES[name].path, asked, user, now_ms(), prefix)
    return HTMLResponse(shown.html, shown.status)


def _shown(entry: PageEntry) -> Callable[[Request], Response]:
    def show(request: Request) -> Response:
        renderings: Renderings = request.app.state.renderings
        user, prefix = user_of(request), prefix_of(request)
        page = renderings.page(entry.path, pairs_of(request), user, prefix)
        text = document(context_of(request), page.composed, page.rendered, page.at, page.stale)
        return HTMLResponse(text, page.rendered.status)

    return show


def _moved(name: str) -> Callable[[Request], Response]:
    def move(request: Request) -> Response:
        return RedirectResponse(links_of(request).link(name, **dict(pairs_of(request))), 307)

    return move
