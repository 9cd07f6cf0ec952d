"""The response to a refused request: JSON for programs, a page for browsers.

A browser that opens a URL accepts ``text/html``; a client that does not is a program, and gets
``{"error_code", "message"}``. The page loads nothing else from this server, since a refused client
would get no style sheet either.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from tallymark.net.web.access_log import Send

_TITLES: Final = {
    401: "You are not logged in",
    403: "This is refused",
    404: "There is no such page",
    421: "This server has another name",
    422: "This address cannot be read",
    429: "Too many log-ins",
    503: "Not just now",
}
_HINTS: Final = {401: " Load this page again, and your browser asks for them."}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Tallymark</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; font: 15px/1.45 system-ui, sans-serif; color: light-dark(#1c2430, #e4e8ee);
  background: light-dark(#ffffff, #12161c); }}
main {{ max-width: 640px; margin: 12vh auto 0; padding: 0 20px; overflow-wrap: anywhere; }}
.brand {{ font-weight: 650; font-size: 19px; }}
h1 {{ font-size: 22px; margin: 18px 0 10px; }}
.soft {{ color: light-dark(#5b6675, #9aa5b4); font-size: 13px; }}
a {{ color: light-dark(#0b57a8, #7ab8ff); }}
</style>
</head>
<body><main>
<div class="brand">Tallymark</div>
<h1>{title}</h1>
<p>{reason}</p>
{home}<p class="soft">{status} {phrase}</p>
</main></body>
</html>
"""
_PAGE_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def wants_page(accept: bytes | str) -> bool:
    """Whether the ``Accept`` header is that of a browser that opens a URL."""
    return "text/html" in (accept if isinstance(accept, str) else accept.decode("latin-1")).lower()


def refusal_page(status: int, reason: str, home: bool = False) -> tuple[bytes, dict[str, str]]:
    """The page and its headers; ``home`` adds a link to the first page."""
    phrase = HTTPStatus(status).phrase
    text = _PAGE.format(
        title=html.escape(_TITLES.get(status, phrase)),
        reason=html.escape(_sentence(reason) + _HINTS.get(status, "")),
        home='<p><a href="/">To the overview</a></p>\n' if home else "",
        status=status,
        phrase=html.escape(phrase),
    )
    return text.encode(), dict(_PAGE_HEADERS)


async def send_refusal(
    send: Send,
    asked: Mapping[bytes, bytes],
    status: int,
    reason: str,
    more: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Answer an ASGI request whose headers, with names in lower case, are ``asked``; ``more`` are
    headers of the answer."""
    if wants_page(asked.get(b"accept", b"")):
        body, headers = refusal_page(status, reason)
    else:
        body = json.dumps({"error_code": status, "message": reason}).encode()
        headers = {"content-type": "application/json"}
    headers["content-length"] = str(len(body))
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*raw, *more]})
    await send({"type": "http.response.body", "body": body})


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
