"""The server: accepts connections, applies limits, stops. The handler interprets the requests."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from typing import Final

from tallymark.errors import UserError
from tallymark.net.addresses import Address
from tallymark.net.inbox import SCRATCH_BYTES
from tallymark.net.limits.accept_queue import (
    FEW_ACCEPTS,
    close_listener,
    let_wait,
    rate_accept_errors,
)
from tallymark.net.limits.closed_connections import PLAIN, TLS, ClosedConnections
from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.limits.pending_handshakes import PendingHandshakes
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.net.server.connection import ServerConnection
from tallymark.net.server.handler import Answer, Handler, OnClose
from tallymark.net.server.limits import ServerLimits
from tallymark.net.tls.handshake import TlsHandshake
from tallymark.net.tls.principals import PrincipalRules

log: Final = logging.getLogger(__name__)

ABANDON: Final = frozenset({1})
"""Fetch: a long poll that changes nothing."""


class Server:
    """Listens on one address and gives every request to ``handler``.

    ``abandon`` names the API keys whose handlers are cancelled when their client disconnects (long
    polls that change nothing); all others run to their end. ``on_close`` is called for every
    connection that was admitted and has ended. ``listener`` is the listener's name, which each
    connection also has. ``quota`` counts the connections together with those of other servers;
    ``request_memory`` does the same with the memory of requests that are not whole.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        limits: ServerLimits | None = None,
        on_close: OnClose | None = None,
        abandon: frozenset[int] = ABANDON,
        listener: str = "PLAINTEXT",
        quota: ConnectionQuota | None = None,
        principals: PrincipalRules | None = None,
        request_memory: RequestMemory | None = None,
    ) -> None:
        self.handler = handler
        self.listener = listener
        self.principals = principals or PrincipalRules()
        """The rules from the name in a certificate to a user."""
        self.tls: ssl.SSLContext | None = None
        """The TLS context of new connections; may be replaced while the server runs."""
        self.limits = limits or ServerLimits()
        self.abandon = abandon
        self.request_memory = request_memory or RequestMemory(self.limits.max_arriving_bytes)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        """Memory that all connections receive into, one at a time."""
        self.connections: set[ServerConnection] = set()
        self.working: set[asyncio.Future[Answer]] = set()
        """Handlers that have not ended, also those whose client has disconnected."""
        self._on_close = on_close
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._quota = quota or ConnectionQuota(self.limits.max_connections)
        self._handshakes: PendingHandshakes[TlsHandshake] = PendingHandshakes()
        self._closed = ClosedConnections()
        self.log_rate = LogRate()
        """Limits the log lines that each host causes."""
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def address(self) -> Address:
        """The address the server listens on; the real port when 0 was requested."""
        assert self._listener is not None, "start() first"
        name = self._listener.sockets[0].getsockname()
        return Address(name[0], name[1])

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen on ``host:port``; UserError when the address is taken or not ours."""
        loop = asyncio.get_running_loop()
        rate_accept_errors(loop)
        self.tls = tls
        make = self._plain if tls is None else self._secured
        try:
            self._listener = await loop.create_server(make, host, port, backlog=FEW_ACCEPTS)
            let_wait(self._listener, self.limits.backlog)
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {_why(error)}", _do(error)) from error
        self._sweep = loop.call_later(self._sweep_interval, self._close_idle)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop accepting, answer the requests read so far for at most ``grace`` seconds, then close
        all connections."""
        if self._listener is None:
            return
        await close_listener(self._listener)
        if self._sweep is not None:
            self._sweep.cancel()
        for handshake in list(self._handshakes):
            await handshake.abort()
        for connection in list(self.connections):
            connection.finish()
        try:
            async with asyncio.timeout(grace):
                await self._empty.wait()
                while self.working:
                    await asyncio.wait(self.working)
        except TimeoutError:
            cut = len(self.connections)
            log.warning("%d connections, %d requests are cut off", cut, len(self.working))
        working = list(self.working)
        for task in working:
            task.cancel()
        for connection in list(self.connections):
            connection.abort()
        await self._empty.wait()
        await asyncio.gather(*working, return_exceptions=True)
        await self._listener.wait_closed()

    def admit(self, connection: ServerConnection, transport: asyncio.Transport) -> bool:
        """Count a new connection. False: there are too many, and the caller must close it."""
        if self.tls is None and not self._count(connection):
            return False
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # The kernel's probes find a peer that vanished without closing the connection.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connections.add(connection)
        self._empty.clear()
        return True

    def forget(self, connection: ServerConnection) -> None:
        """A connection has ended."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        self._quota.give_back(connection.host)
        self._free_closed()
        if not self.connections:
            self._empty.set()
        if self._on_close is not None:
            self._on_close(connection)

    def _plain(self) -> ServerConnection:
        return ServerConnection(self)

    def _secured(self) -> TlsHandshake:
        assert self.tls is not None
        return TlsHandshake(
            self.tls,
            self.limits.handshake_timeout,
            admit=self._count,
            serve=self._shaken,
            ended=self._not_shaken,
        )

    def _count(self, connection: ServerConnection | TlsHandshake) -> bool:
        why = self._quota.take(connection.host)
        if why is None:
            if isinstance(connection, TlsHandshake):
                given_up = self._handshakes.begin(connection.host, connection)
                if given_up is not None:
                    given_up.give_up()
            return True
        refused = self._quota.refused
        if refused & (refused - 1) == 0:  # the 1st, 2nd, 4th, 8th ... is logged
            log.warning("%s refused: %s; %d refused so far", connection.peer, why, refused)
        return False

    def _shaken(self, handshake: TlsHandshake) -> ServerConnection:
        self._handshakes.end(handshake.host, handshake)
        connection = ServerConnection(self)
        # A connection that has just broken no longer has its peer's address, by which the quota
        # counted it.
        connection.host, connection.peer = handshake.host, handshake.peer
        return connection

    def _not_shaken(self, handshake: TlsHandshake, why: str) -> None:
        held = self.log_rate.passes(("handshake", handshake.host))
        if held is not None:
            log.warning("TLS handshake with %s failed: %s; repeated=%d", handshake.peer, why, held)
        self._handshakes.end(handshake.host, handshake)
        self._quota.give_back(handshake.host)
        self._free_closed()

    def _free_closed(self) -> None:
        if self._closed.add(PLAIN if self.tls is None else TLS):
            asyncio.get_running_loop().call_soon(self._closed.collect)

    @property
    def _sweep_interval(self) -> float:
        limits = self.limits
        longest = (limits.idle_timeout, limits.request_timeout, limits.login_timeout or 60.0)
        return min(longest) / 2

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self.connections):
            begun = connection.partial_since
            if connection.resting and connection.last_activity < now - self.limits.idle_timeout:
                self._log_closed(logging.INFO, connection, "nothing moved on it")
                connection.abort()
            elif begun is not None and begun < now - self.limits.request_timeout:
                self._log_closed(logging.WARNING, connection, "its request never ends")
                connection.abort()
            elif self._is_late(connection, now):
                self._log_closed(logging.WARNING, connection, "it does not log in")
                connection.abort()
        self._sweep = loop.call_later(self._sweep_interval, self._close_idle)

    def _is_late(self, connection: ServerConnection, now: float) -> bool:
        longest = self.limits.login_timeout
        if longest is None or connection.accepted_at > now - longest:
            return False
        return connection.sasl is None or connection.sasl.user is None

    def _log_closed(self, level: int, connection: ServerConnection, why: str) -> None:
        held = self.log_rate.passes((why, connection.host))
        if held is not None:
            log.log(level, "%s is closed: %s; repeated=%d", connection.peer, why, held)


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is taken"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address"
    return error.strerror or str(error)


def _do(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "stop what listens there or choose another port"
    return "choose an address of this machine, or 127.0.0.1"
