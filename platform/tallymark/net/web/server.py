"""Serves an ASGI application over HTTP, in a thread of its own, with limits for clients.

uvicorn waits for ever for the head of a request, for its body, and for a client that does not read
the response; it does not count a connection that has sent nothing yet. Here connections are counted
when they are accepted, and each has deadlines::

    accepted -> counted -> [handshake 10 s] -> head 10 s -> body 30 s -> the application
       |                                        ^                            |
       too many: closed                         +---- kept alive 5 s <-------+ answer: every 64 KiB
                                                                               within 30 s
    out of time: closed

It needs uvicorn, which the extras for the registry and the dashboards install.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tallymark.errors import TallymarkError, UserError
from tallymark.net.limits.accept_queue import ACCEPTS, close_listener, rate_accept_errors
from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.limits.pending_handshakes import PendingHandshakes
from tallymark.net.tls.handshake import Successor, TlsHandshake
from tallymark.net.web.access import PEER, SCHEME
from tallymark.net.web.access_log import App, Message, Receive, Send
from tallymark.net.web.connection_bounds import BoundedConnection, WebLimits

try:
    from tallymark.net.web.http_compiled import CompiledHttp as _Http
except ImportError:  # httptools is in the extras; without it all is the same, and slower
    from tallymark.net.web.http_pure import PureHttp as _Http  # type: ignore[assignment]

HttpProtocol = Callable[..., BoundedConnection]
"""(limits, quota, whether the quota counts the connection already, what uvicorn gives a protocol)
-> the protocol of one connection."""
HTTP: Final[HttpProtocol] = _Http
"""The protocol of every server that is not given another one."""

START_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 10.0
UNANSWERED_CLOSE_SECONDS: Final = 0.5
"""How long the end of a TLS connection is waited for when the server stops."""


class WebServer:
    """Serves ``app`` on ``listener`` from construction on, until :meth:`close`.

    ``tls`` is its TLS context; ``name`` is that of its thread; ``http`` makes the protocol of a
    connection. TallymarkError where it does not start."""

    def __init__(
        self,
        app: App,
        listener: socket.socket,
        name: str,
        *,
        tls: ssl.SSLContext | None = None,
        limits: WebLimits | None = None,
        http: HttpProtocol | None = None,
    ) -> None:
        self._name = name
        self._listener = listener
        bounds = _within_descriptors(limits or WebLimits())
        self.quota = ConnectionQuota(bounds.max_connections, bounds.max_per_host)
        self._server = GracefulServer(
            _config(app, _Connections(bounds, self.quota, tls, http or HTTP))
        )
        logging.getLogger("uvicorn.error").addFilter(_RATED)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.close()
                raise TallymarkError(f"the server of {name} did not start; its log says why")
            self._thread.join(0.01)

    def check(self) -> None:
        """Raise if the server's thread has ended."""
        if not self._thread.is_alive():
            raise TallymarkError(f"the server of {self._name} has stopped; its log says why")

    def close(self) -> None:
        """Finish the requests that are being answered, then stop. Idempotent."""
        self._server.should_exit = True
        self._thread.join(CLOSE_SECONDS)
        self._listener.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])


def listen(host: str, port: int, what: str, setting: str) -> socket.socket:
    """A listening socket for ``what``; port 0 takes a free port. UserError names the ``setting`` to
    change."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UserError(f"the host {host} of {what} is not known: {error.strerror}") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(
            f"{what} cannot listen on {host}:{port}: {error.strerror}",
            f"stop what listens there, or set {setting} in the settings",
        ) from error
    return listener


class GracefulServer(uvicorn.Server):
    """uvicorn's server, which loses no accepted socket at its end."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and end the requests that are being answered."""
        for server in self.servers:
            await close_listener(server)
        aborting = asyncio.get_running_loop().create_task(self._abort_closing())
        try:
            await super().shutdown(sockets)
        finally:
            aborting.cancel()

    async def _abort_closing(self) -> None:
        """A connection that is closed over TLS waits for the client to agree, which one that is
        idle does not: it has been sent everything by then."""
        while True:
            await asyncio.sleep(UNANSWERED_CLOSE_SECONDS)
            for connection in list(self.server_state.connections):
                transport: Any = connection.transport
                if transport.is_closing() and not transport.get_write_buffer_size():
                    transport.abort()


class _Connections:
    """Makes the protocol of each accepted connection; uvicorn calls it as it would call its
    protocol class."""

    def __init__(
        self,
        limits: WebLimits,
        quota: ConnectionQuota,
        tls: ssl.SSLContext | None,
        http: HttpProtocol,
    ) -> None:
        self.limits = limits
        self.quota = quota
        self._tls = tls
        self._http = http
        self._handshakes: PendingHandshakes[TlsHandshake] = PendingHandshakes()

    def __call__(self, **of_uvicorn: Any) -> asyncio.Protocol:
        rate_accept_errors(asyncio.get_running_loop())
        if self._tls is None:
            return self._http(self.limits, self.quota, False, **of_uvicorn)
        counted = False

        def admit(handshake: TlsHandshake) -> bool:
            nonlocal counted
            counted = self.quota.take(handshake.host) is None
            if counted:
                given_up = self._handshakes.begin(handshake.host, handshake)
                if given_up is not None:
                    given_up.give_up()
            return counted

        def serve(handshake: TlsHandshake) -> Successor:
            self._handshakes.end(handshake.host, handshake)
            return self._http(self.limits, self.quota, True, **of_uvicorn)

        def ended(handshake: TlsHandshake, _why: str) -> None:
            if counted:
                self._handshakes.end(handshake.host, handshake)
                self.quota.give_back(handshake.host)

        return TlsHandshake(self._tls, self.limits.handshake, admit, serve, ended)


class _WithPeer:
    """Around ``app``: the scope has the address of the peer, and as the client's what a proxy on
    this machine says by ``X-Forwarded-For``. That header is for logs and limits only: anyone on
    this machine can send it."""

    def __init__(self, app: App) -> None:
        forwarders = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")  # as uvicorn has it
        self._app: Any = ProxyHeadersMiddleware(app, forwarders)  # type: ignore[arg-type]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        scope[PEER], scope[SCHEME] = scope.get("client"), scope.get("scheme")
        await self._app(scope, receive, send)


class _Rated(logging.Filter):
    """Limits the log lines that clients can cause: uvicorn would log one for every bad request."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = LogRate()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING or self._limit.passes(record.msg) is not None


_RATED: Final = _Rated()


def _within_descriptors(limits: WebLimits) -> WebLimits:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    most = max(8, min(limits.max_connections, soft // 2))
    return WebLimits(
        most,
        min(limits.max_per_host, max(8, most * 3 // 4)),
        limits.handshake,
        limits.head,
        limits.body,
        limits.unread,
    )


def _config(app: App, connections: _Connections) -> uvicorn.Config:
    return uvicorn.Config(
        _WithPeer(app),
        # Without uvicorn's own TLS, and on asyncio's loop: see tallymark.net.tls.handshake.
        http=connections,  # type: ignore[arg-type]
        loop="asyncio",
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,  # as _WithPeer
        server_header=False,
        backlog=ACCEPTS,
        timeout_graceful_shutdown=int(CLOSE_SECONDS) // 2,
    )
