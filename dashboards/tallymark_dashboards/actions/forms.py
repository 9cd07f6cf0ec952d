"""A page that asks before something is changed, and the reading of what it sends. It needs no
JavaScript."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time
from tallymark_dashboards.access.form_tokens import COOKIE, FormTokens, is_browser, new_browser
from tallymark_dashboards.actions.desk import RepairDesk
from tallymark_dashboards.actions.guard import (
    Posted,
    Refused,
    is_foreign,
    is_unproven,
    may_not_act,
    origin_of,
)
from tallymark_dashboards.frame.links import Links
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES
from tallymark_dashboards.frame.rendering import composed, document, fragment
from tallymark_dashboards.frame.requests import context_of, links_of, prefix_of, user_of
from tallymark_dashboards.frame.time_range import time_range

MAX_BODY: Final = 64 * 1024
MOST_FIELDS: Final = 40
LONGEST_NOTE: Final = 500
LONGEST_VALUE: Final = 300


@dataclass(frozen=True, slots=True)
class Actions:
    """What the actions of one application share."""

    desk: RepairDesk
    tokens: FormTokens
    deciding: Lock = field(default_factory=Lock)
    """Held while it is checked that a form shows what is so, and the decision is written."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a page asks. ``facts``: what it is about, name and text. ``hidden``: what is sent with
    it. ``choices``: label, name and values of a list, if there is one. ``note``: whether a reason
    may be given. ``command``: what does the same. ``back``: the page it came from."""

    action: str
    title: str
    said: str
    facts: Sequence[tuple[str, str]]
    hidden: Mapping[str, str]
    submit: str
    command: str
    back: str
    choices: tuple[str, str, Sequence[str]] | None = None
    note: bool = True
    warning: str = ""
    seen: str = ""
    """What it shows that another decision changes; it is sent with the form."""

    @property
    def fields(self) -> list[tuple[str, Markup]]:
        """The hidden fields, as they are sent."""
        shown = {**self.hidden, "seen": self.seen}
        return [(name, as_sent(value)) for name, value in shown.items()]


def actions_of(request: Request) -> Actions:
    """What the actions of this application share."""
    actions: Actions = request.app.state.actions
    return actions


def page_or(links: Links, name: str, /, **values: object) -> str:
    """The address of a page, of the overview where there is no such page."""
    return links.link(name, **values) if name in PAGES else links.link("overview")


def refusal_for(request: Request) -> Refused | None:
    """Why the user may change nothing at all."""
    return may_not_act(user_of(request), context_of(request).deployment.dashboards.actions)


async def posted(request: Request, action: str) -> tuple[dict[str, str], Refused | None]:
    """The fields of a form that was sent, and why it changes nothing; None: it may."""
    context, user = context_of(request), user_of(request)
    refused = refusal_for(request)
    if refused is not None:
        return {}, refused
    host = request.headers.get("host", "")
    origins = (
        origin_of(f"http://{host}"),
        origin_of(f"https://{host}"),
        origin_of(context.deployment.console_url),
    )
    refused = is_foreign(Posted(request.headers, origins))
    if refused is not None:
        return {}, refused
    fields = await _fields(request)
    browser = request.cookies.get(COOKIE, "")
    tokens, token = actions_of(request).tokens, fields.pop("token", "")
    return fields, is_unproven(tokens, token, user, browser, action, now_ms())


def show_form(
    request: Request, form: Form, refused: Refused | None = None, status: int = 200
) -> Response:
    """The page that asks; only with the command where the user may not act."""
    unable = None if refused is not None and refused.again else refusal_for(request)
    values = {
        "form": form,
        "refused": refused or unable,
        "able": unable is None,
        "longest_note": LONGEST_NOTE,
    }
    status = refused.status if refused is not None else status
    page = Page(form.title, "pages/act.html", values, status=status)
    return show(request, page, form.action)


def show(request: Request, page: Page, action: str, refresh: int = 0) -> Response:
    """A page with a form of that action on it: ``token`` is among what its template gets, and the
    browser gets the cookie to go with it. ``refresh``: after so many seconds it is loaded again."""
    context, now = context_of(request), now_ms()
    cookie = request.cookies.get(COOKIE, "")
    browser = cookie if is_browser(cookie) else new_browser()
    token = actions_of(request).tokens.make(user_of(request).name, browser, action, now)
    links = links_of(request)
    values = {**page.values, "token": token}
    shown_page = Page(page.title, page.template, values, page.tone, page.count, page.status)
    one = composed(context, shown_page, links, time_range({}, now)[0], user_of(request))
    html = document(context, one, fragment(context, one), now)
    response = HTMLResponse(html, page.status)
    if refresh:
        response.headers["Refresh"] = str(refresh)
    if browser != cookie:
        _set_cookie(request, response, browser)
    return response


def lead_to(address: str) -> Response:
    """Where the browser goes on after something was changed: loading that page again changes
    nothing once more."""
    return RedirectResponse(address, 303)


def window_start(said: str) -> int:
    """The start (ms) by which a form or an address names a window. UserError: it names none."""
    try:
        return parse_time(said)
    except UserError:
        what = f"{said[:40]!r} is no window" if said.strip() else "no window is named"
        do = "A window is named by its start, in ms since 1970 or as 2026-01-31T12:40:00Z."
        raise UserError(what, do) from None


def as_sent(value: str) -> Markup:
    """A value of a hidden field. Pages show characters that do not print as escapes; what a form
    sends has to be as it is."""
    return escape(value)


def refuse(request: Request, refused: Refused) -> Response:
    """The page that says why nothing was changed."""
    said = f"{refused.said[:1].upper()}{refused.said[1:]}."
    values = {"title": "Nothing was changed", "said": said, "hint": refused.hint}
    page = Page("Nothing was changed", "pages/failed.html", values, "warn", status=refused.status)
    return show(request, page, "")


async def _fields(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"a form has at most {MAX_BODY:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise HTTPException(400, "this form cannot be read") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value.replace("\0", ""))
    return fields


def _set_cookie(request: Request, response: Response, browser: str) -> None:
    context = context_of(request)
    # A proxy may speak TLS with the browser, and plain HTTP with us; it may say so or not.
    console, host = context.deployment.console_url, request.headers.get("host", "")
    secure = request.url.scheme == "https" or origin_of(f"https://{host}") == origin_of(console)
    response.set_cookie(
        COOKIE,
        browser,
        path=prefix_of(request) or "/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
