"""What a route takes from a request: the context, the user, the query."""

from __future__ import annotations

from fastapi import Request

from tallymark.net.web.access_log import USER
from tallymark_dashboards.access.forwarded import PREFIX
from tallymark_dashboards.access.user import VIEWER, User
from tallymark_dashboards.frame.context import Context
from tallymark_dashboards.frame.links import Links


def context_of(request: Request) -> Context:
    """The context of the application that serves the request."""
    context: Context = request.app.state.context
    return context


def prefix_of(request: Request) -> str:
    """Below which path the browser sees the dashboards: "" or "/audit"."""
    prefix: str = request.scope.get(PREFIX, context_of(request).prefix)
    return prefix


def links_of(request: Request) -> Links:
    """The addresses, without a time range."""
    return Links(prefix_of(request), context_of(request).static)


def user_of(request: Request) -> User:
    """The user of the request; a viewer without a name where no log-in is configured."""
    user: User = request.scope.get(USER, VIEWER)
    return user


def pairs_of(request: Request) -> list[tuple[str, str]]:
    """The query of the address, in its order."""
    return request.query_params.multi_items()
