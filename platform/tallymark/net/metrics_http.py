"""A very small HTTP server for what watches a process: ``/metrics`` and the like.

It answers GET and HEAD, one request a connection, and reads no body. What it is sent is bounded in
bytes and in time; a client that is slow or talks nonsense costs one connection for five seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from tallymark.errors import UserError
from tallymark.net import Address
from tallymark.net.accept_errors import FEW_ACCEPTS, rate_accept_errors

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0
_MAX_HEAD: Final = 16 * 1024
_MAX_CONNECTIONS: Final = 32


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    content_type: str
    body: bytes


Route = Callable[[], Awaitable[Page]]


class MetricsServer:
    """Serves ``routes`` (path -> what makes its page) between :meth:`start` and :meth:`stop`."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes
        self._listener: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        """Where it listens; the real port when 0 was asked for."""
        assert self._listener is not None, "start() first"
        name = self._listener.sockets[0].getsockname()
        return Address(name[0], name[1])

    async def start(self, host: str, port: int) -> None:
        """Listen; UserError where the address is taken or not ours."""
        rate_accept_errors(asyncio.get_running_loop())
        try:
            self._listener = await asyncio.start_server(
                self._accept, host, port, limit=_MAX_HEAD, backlog=FEW_ACCEPTS
            )
        except OSError as error:
            raise UserError(
                f"cannot serve metrics on {host}:{port}: {error.strerror or error}",
                "set metrics.port or metrics.host",
            ) from error

    async def stop(self) -> None:
        """Listen no more, and end what is being answered. Idempotent."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        listener.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await listener.wait_closed()

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
                method, page = await self._page(head)
                writer.write(_encoded(page, with_body=method != "HEAD"))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # it went away, or says nothing that could be answered
        finally:
            writer.transport.abort()

    async def _page(self, head: bytes) -> tuple[str, Page]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", _plain(HTTPStatus.BAD_REQUEST)
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        route = self._routes.get(path)
        if route is None:
            return method, _plain(HTTPStatus.NOT_FOUND)
        try:
            return method, await route()
        except Exception:
            log.exception("%s cannot be answered", path)
            return method, _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _plain(status: HTTPStatus) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())


def _encoded(page: Page, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (page.body if with_body else b"")
