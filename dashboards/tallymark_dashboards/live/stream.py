"""``/live?page=/topic%3Ftopic%3Dclicks&have=<digest>``: one stream a page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallymark_dashboards.access.user import User
from tallymark_dashboards.frame.registry import page_at
from tallymark_dashboards.live import wire
from tallymark_dashboards.live.feeds import Address, TooManyViewersError
from tallymark_dashboards.live.hub import Hub

LONGEST_PAGE: Final = 16_000
"""Characters of the address of a page."""
FULL_RETRY_S: Final = 30
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "vary": "Accept-Encoding",
    "x-accel-buffering": "no",  # nginx would hold events back
}


def address_of(page: str, user: User, prefix: str | None = None) -> Address:
    """The address of a live page, which ``page`` names below the prefix. LookupError: it is
    none."""
    if len(page) > LONGEST_PAGE:
        raise LookupError(f"an address of {len(page):,} characters is too long")
    try:
        parts = urlsplit(page)
    except ValueError:
        raise LookupError(f"{page[:300]!r} is no address") from None
    entry = page_at(parts.path)
    if entry is None or not entry.live:
        raise LookupError(f"no live page is at {parts.path[:300]!r}")
    return Address.of(entry.path, parse_qsl(parts.query, keep_blank_values=True), user, prefix)


class LiveResponse(Response):
    """The stream of one viewer; 503 if there are too many. ``has``: the digest of what the page
    shows. The connection ends when the viewer or the server goes."""

    def __init__(self, hub: Hub, address: Address, has: str, accept_encoding: str) -> None:
        compressed = wire.takes_gzip(accept_encoding)
        headers = {**HEADERS, **({"content-encoding": "gzip"} if compressed else {})}
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._hub = hub
        self._address = address
        self._has = has
        self._compressed = compressed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            viewer = self._hub.join(self._address, self._has)
        except TooManyViewersError:
            text = f"{len(self._hub)} live pages are open, more are not taken: reload the page"
            headers = {"Retry-After": str(FULL_RETRY_S)}
            await plain_error(503, text, headers)(scope, receive, send)
            return
        gone = asyncio.create_task(_left(receive))
        stream = self._hub.stream(viewer, self._compressed, gone)
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            async for data in stream:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await stream.aclose()
            self._hub.leave(viewer)


def plain_error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error for a program: a browser's EventSource shows none."""
    body = json.dumps({"detail": text})
    return Response(body, status, {**(headers or {})}, "application/json")


async def _left(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
