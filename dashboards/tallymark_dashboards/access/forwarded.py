"""Which address the browser asked, where a proxy stands between: scheme, host and path prefix.

::

    X-Forwarded-Proto: https              -> the scheme of the scope
    X-Forwarded-Host: tallymark.example   -> the header Host
    X-Forwarded-Prefix: /audit            -> PREFIX in the scope; links, cookies begin with it

Only a proxy of ``[dashboards.proxy] trusted_peers`` is believed. Every client can send such
headers: those of other peers are removed, before anything reads them. The host still has to be one
of our names (:mod:`tallymark.net.web.guard` stands behind this).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tallymark.deployment.places import PATH_PREFIX
from tallymark.net.web.access import SCHEME
from tallymark.net.web.access_log import App, Message, Receive, Send
from tallymark.net.web.guard import host_of
from tallymark.net.web.refusal import send_refusal
from tallymark_dashboards.access.identity import Headers, TrustedProxy, peer_of

PREFIX: Final = "tallymark.prefix"
"""Where an ASGI scope has the path below which the browser sees us, where a proxy says it: "" or
"/audit"."""
PROTO_HEADER: Final = b"x-forwarded-proto"
HOST_HEADER: Final = b"x-forwarded-host"
PREFIX_HEADER: Final = b"x-forwarded-prefix"
OURS: Final = (PROTO_HEADER, HOST_HEADER, PREFIX_HEADER)
LONGEST_HOST: Final = 260
LONGEST_PREFIX: Final = 200
_SHOWN: Final = 60
_TITLES: Final = {name: name.decode().title() for name in OURS}


@dataclass(frozen=True, slots=True)
class Outside:
    """What a proxy says of the address in the browser; None: nothing. ``wrong``: why its headers
    cannot be believed."""

    scheme: str | None = None
    host: str | None = None
    prefix: str | None = None
    wrong: str = ""


def outside_of(headers: Headers) -> Outside:
    """What the headers of a trusted proxy say. A value that is none is refused and not ignored:
    pages without their prefix would lead elsewhere, and the owner would not know why."""
    given: dict[bytes, str] = {}
    for name, value in headers:
        if name.lower() not in OURS:
            continue
        if name.lower() in given:
            return Outside(
                wrong=f"the proxy passed {_TITLES[name.lower()]} on that it had received"
            )
        given[name.lower()] = value.decode("latin-1").strip(" \t")
    scheme = given.get(PROTO_HEADER, "").lower() or None
    host = given.get(HOST_HEADER, "") or None
    prefix = given.get(PREFIX_HEADER) or None
    if scheme not in (None, "http", "https"):
        return _wrong(PROTO_HEADER, scheme, "http or https")
    if host is not None and (len(host) > LONGEST_HOST or host_of(host) is None):
        return _wrong(HOST_HEADER, host, "a host, or a host and a port")
    if prefix is not None:
        prefix = prefix.removesuffix("/")
        fits = len(prefix) <= LONGEST_PREFIX and PATH_PREFIX.fullmatch(prefix)
        if prefix and not fits:
            return _wrong(PREFIX_HEADER, prefix, "a path such as /audit")
    return Outside(scheme, host, prefix)


class Forwarded:
    """Around the whole application, also the guard and the log-in."""

    def __init__(self, app: App, proxy: TrustedProxy) -> None:
        self._app = app
        self._proxy = proxy

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in OURS]
        said = Outside()
        if len(headers) < len(scope["headers"]) and self._proxy.trusts(peer_of(scope)):
            said = outside_of(scope["headers"])
        if said.wrong:
            await send_refusal(send, dict(headers), 400, said.wrong, ())
            return
        if said.host is not None:
            headers = [(name, value) for name, value in headers if name.lower() != b"host"]
            headers.insert(0, (b"host", said.host.encode("latin-1")))
        # The web server believes the scheme that any program on this machine says.
        scheme = said.scheme or scope.get(SCHEME) or scope.get("scheme", "http")
        # In the scope itself, not in a copy: the access log, around us, reads there who logged in.
        scope.update(headers=headers, scheme=scheme)
        if said.prefix is not None:
            scope[PREFIX] = said.prefix
        await self._app(scope, receive, send)


def _wrong(header: bytes, value: str, expected: str) -> Outside:
    text = re.sub(r"[^!-~]", "?", value[:_SHOWN])
    return Outside(wrong=f"{_TITLES[header]} of the proxy is {text!r}, and not {expected}")
