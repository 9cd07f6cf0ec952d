"""A very small HTTP server for monitoring: ``/metrics``, ``/health``.

It answers GET and HEAD, one request a connection, and reads no body. Requests are bounded in bytes
and in time; a client that is slow or sends garbage costs one connection for five seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from tallymark.errors import UserError
from tallymark.net.addresses import Address
from tallymark.net.limits.accept_queue import FEW_ACCEPTS, close_listener, rate_accept_errors
from tallymark.net.tls.handshake import TlsHandshake
from tallymark.net.web.access import WebAccess
from tallymark.net.web.guard import refusal
from tallymark.net.web.login import OPEN_PATHS, refused

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0
_MAX_HEAD: Final = 16 * 1024
_MAX_CONNECTIONS: Final = 32


class Page(NamedTuple):
    """A response."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Route = Callable[[], Awaitable[Page]]


class MetricsServer:
    """Serves ``routes`` (path -> function that makes its page) between :meth:`start` and
    :meth:`stop`, to clients that ``access`` admits."""

    def __init__(self, routes: Mapping[str, Route], access: WebAccess | None = None) -> None:
        self._routes = routes
        self._access = access or WebAccess()
        self._shaking = 0
        self._listener: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        """The address it listens on; the real port when 0 was requested."""
        assert self._listener is not None, "start() first"
        name = self._listener.sockets[0].getsockname()
        return Address(name[0], name[1])

    async def start(self, host: str, port: int) -> None:
        """Listen; UserError where the address is taken or is not one of this machine."""
        loop = asyncio.get_running_loop()
        rate_accept_errors(loop)
        try:
            self._listener = await loop.create_server(
                self._protocol, host, port, backlog=FEW_ACCEPTS
            )
        except OSError as error:
            raise UserError(
                f"cannot serve metrics on {host}:{port}: {error.strerror or error}",
                "set metrics.port or metrics.host",
            ) from error

    async def stop(self) -> None:
        """Stop listening, and abort the requests that are being answered. Idempotent."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        await close_listener(listener)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await listener.wait_closed()

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._access.tls is None:
            return self._reading()
        counted = False

        def admit(_handshake: TlsHandshake) -> bool:
            nonlocal counted
            counted = self._shaking + len(self._serving) < _MAX_CONNECTIONS
            self._shaking += counted
            return counted

        def serve(_handshake: TlsHandshake) -> asyncio.StreamReaderProtocol:
            self._shaking -= 1
            return self._reading()

        def ended(_handshake: TlsHandshake, _why: str) -> None:
            self._shaking -= 1

        return TlsHandshake(self._access.tls, _SECONDS, admit, serve, ended)

    def _reading(self) -> asyncio.StreamReaderProtocol:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_HEAD, loop=loop)
        return asyncio.StreamReaderProtocol(reader, self._accept, loop=loop)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= _MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                here, there = (_host(writer, name) for name in ("sockname", "peername"))
                method, page = await self._page(head, here, there)
                writer.write(_encoded(page, with_body=method != "HEAD"))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the client disconnected, or sent something that has no answer
        finally:
            writer.transport.abort()

    async def _page(self, head: bytes, here: str, there: str) -> tuple[str, Page]:
        """The method of a request and the page that answers it; ``here`` and ``there`` are the
        addresses of both sides."""
        lines = head.split(b"\r\n")
        words = lines[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", _plain(HTTPStatus.BAD_REQUEST)
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in reversed(lines[1:]))
        }
        foreign = refusal(method, headers, self._access.names, here)
        if foreign is not None:
            return method, _plain(HTTPStatus(foreign.status), foreign.reason)
        route = self._routes.get(path)
        if route is None:
            return method, _plain(HTTPStatus.NOT_FOUND)
        if self._access.login is not None and path not in OPEN_PATHS:
            given = headers.get(b"authorization", b"")
            attempt = await self._access.login.check(given, there)
            if attempt.status != HTTPStatus.OK:
                text, more = refused(attempt.status)
                return method, _plain(HTTPStatus(attempt.status), text, more)
        try:
            return method, await route()
        except Exception:
            log.exception("%s cannot be answered", path)
            return method, _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _host(writer: asyncio.StreamWriter, side: str) -> str:
    name = writer.get_extra_info(side)
    return str(name[0]) if isinstance(name, tuple) else "?"


def _plain(status: HTTPStatus, text: str = "", headers: Mapping[str, str] | None = None) -> Page:
    body = f"{text or status.phrase}\n".encode()
    return Page(status, "text/plain; charset=utf-8", body, headers or {})


def _encoded(page: Page, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Cross-Origin-Resource-Policy: same-origin\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in page.headers.items())
        + "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.body if with_body else b"")
