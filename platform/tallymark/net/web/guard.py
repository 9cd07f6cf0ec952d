"""Refuses requests that web pages of other sites cause, as an ASGI middleware.

A browser on a machine that reaches us runs pages of any site. Two attacks are possible:

* *Rebinding*: ``evil.example`` first resolves to its own server, then to 127.0.0.1. For the browser
  our responses belong to that page, which can read them all. But the request has ``Host:
  evil.example``: a host that is neither loopback, nor the local address of the connection, nor a
  configured name is refused (421).
* *Foreign requests*: a page may send forms and simple POSTs to any address, though it cannot read
  the response. Browsers name the sender in ``Origin`` and ``Sec-Fetch-Site`` (W3C Fetch Metadata):
  requests from another site, or another port of this machine, are refused (403), unless a person
  follows a link to a page.

Clients that are no browsers send neither header, and are never refused here.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tallymark.net.limits.log_rate import LogRate
from tallymark.net.web.access_log import App, Message, Receive, Send
from tallymark.net.web.refusal import send_refusal

log = logging.getLogger(__name__)

_HOST: Final = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")
_SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_WILDCARDS: Final = frozenset(("", "0.0.0.0", "::", "*"))
_MAX_REMEMBERED: Final = 256
_LONGEST: Final = 300
_KEEP_OUT: Final = ((b"cross-origin-resource-policy", b"same-origin"),)


class Refusal(NamedTuple):
    """HTTP status and the reason."""

    status: int
    reason: str


class OwnNames:
    """Our own host names, as configured and advertised; the settings may also have them as
    ``host:port`` or in URLs (``https://tallymark.example/audit``)."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.hosts: frozenset[str] = frozenset(
            host for text in texts if (host := _own(text)) not in _WILDCARDS
        )
        self._fit: set[tuple[bytes, str]] = set()

    def fit(self, given: bytes, local: str) -> bool:
        """Whether a ``Host`` header, as received, names us. Headers that do are remembered: nearly
        every request has one of them."""
        if (given, local) in self._fit:
            return True
        host = host_of(_text(given))
        if host is None or not self.knows(host, local):
            return False
        if len(given) <= _LONGEST:  # any number of dots after "localhost" is valid, too
            if len(self._fit) >= _MAX_REMEMBERED:
                self._fit.clear()
            self._fit.add((given, local))
        return True

    def knows(self, host: str, local: str = "") -> bool:
        """Whether ``host`` is one of our names, loopback, or ``local``, the local address of the
        connection: a page of another site cannot have any of these as its host."""
        return host in self.hosts or host == "localhost" or _is_local(host, local)


def refusal(
    method: str, headers: Mapping[bytes, bytes], names: OwnNames, local: str = ""
) -> Refusal | None:
    """The refusal of a request; None if the request is to be served. ``headers`` have names in
    lower case. A request without the headers that only browsers send is served."""
    given = headers.get(b"host", b"")
    if given and not names.fit(given, local):
        return Refusal(
            421,
            f"Host {given[:100].decode('latin-1')!r} is no name of this server: add it to "
            "[security] allowed_hosts in the settings if it is one",
        )
    site = _text(headers[b"sec-fetch-site"]) if b"sec-fetch-site" in headers else ""
    if site not in ("", "same-origin", "none") and not _follows_a_link(method, headers):
        return Refusal(403, "a page of another site may not ask for this")
    # A request that the browser itself calls same-origin may look foreign behind a proxy that
    # changes the Host header.
    if b"origin" in headers and method not in _SAFE and site != "same-origin":
        origin = _text(headers[b"origin"])
        if origin and not _same(origin, _text(given)):
            return Refusal(403, f"a page of {origin[:100]!r} may change nothing here")
    return None


class WebGuard:
    """Wraps ``app``. Refusals are logged, at a limited rate for each address, and answered by
    :mod:`.refusal`."""

    def __init__(self, app: App, names: OwnNames) -> None:
        self._app = app
        self._names = names
        self._log_rate = LogRate()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        server = scope.get("server")
        headers = dict(reversed(scope["headers"]))
        found = refusal(scope["method"], headers, self._names, server[0] if server else "")
        if found is None:
            await self._app(scope, receive, _closed_to_others(send))
            return
        self._log_refused(scope, found)
        await send_refusal(send, headers, found.status, found.reason, _KEEP_OUT)

    def _log_refused(self, scope: Message, found: Refusal) -> None:
        client = scope.get("client")
        host = client[0] if client else "?"
        held = self._log_rate.passes(host)
        if held is not None:
            log.warning("refused from=%s held_back=%d: %s", host, held, found.reason)


def _text(value: bytes) -> str:
    return value.decode("latin-1").strip().lower()


def host_of(netloc: str) -> str | None:
    """The host of ``host:port`` without port, brackets and trailing dot; None for anything else."""
    match = _HOST.fullmatch(netloc.lower())
    return None if match is None else (match[1] or match[2].rstrip("."))


def _own(text: str) -> str:
    netloc = text.strip().lower().partition("://")
    rest = (netloc[2] or netloc[0]).partition("/")[0]
    # Settings contain IPv6 hosts without brackets.
    return host_of(rest) or rest


def _is_local(host: str, local: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or (bool(local) and host == local)


def _same(origin: str, netloc: str) -> bool:
    scheme, _, rest = origin.partition("://")
    port = {"http": ":80", "https": ":443"}.get(scheme)
    return port is not None and rest.removesuffix(port) == netloc.removesuffix(port)


def _follows_a_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    return (
        method in ("GET", "HEAD")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _closed_to_others(send: Send) -> Send:
    """``send`` with headers that forbid browsers to embed the response in pages of other sites."""

    async def closed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_KEEP_OUT]
        await send(message)

    return closed
