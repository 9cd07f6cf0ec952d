"""The server shell: accepts, limits, stops. What a request means is the handler's business."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from typing import Final

from tallymark.errors import UserError
from tallymark.net.addresses import Address
from tallymark.net.server_connection import Answer, Handler, OnClose, ServerConnection, ServerLimits

log: Final = logging.getLogger(__name__)

_FETCH: Final = 1


class Server:
    """Listens on one address and hands every request to ``handler``.

    ``abandon`` names the API keys whose handlers are cancelled when their client goes away (long
    polls that change nothing); all others run to their end. ``on_close`` is told of every
    connection that was admitted and has ended.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        limits: ServerLimits | None = None,
        on_close: OnClose | None = None,
        abandon: frozenset[int] = frozenset({_FETCH}),
    ) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.abandon = abandon
        self.connections: set[ServerConnection] = set()
        self.working: set[asyncio.Task[Answer]] = set()
        """Handlers that have not ended, also those whose client is gone."""
        self._on_close = on_close
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._refused = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def address(self) -> Address:
        """Where the server listens; the real port when 0 was asked for."""
        assert self._listener is not None, "start() first"
        name = self._listener.sockets[0].getsockname()
        return Address(name[0], name[1])

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen on ``host:port``; UserError when the address is taken or not ours."""
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                lambda: ServerConnection(self), host, port, ssl=tls, backlog=1024
            )
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {_why(error)}", _do(error)) from error
        self._sweep = loop.call_later(self._sweep_interval, self._close_idle)

    async def stop(self, grace: float = 5.0) -> None:
        """Accept no more, answer what was taken for at most ``grace`` seconds, then close all."""
        if self._listener is None:
            return
        self._listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
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
        """Take a new connection in, unless there are too many (then it is to be closed)."""
        if len(self.connections) >= self.limits.max_connections:
            self._refused += 1
            if self._refused & (self._refused - 1) == 0:  # the 1st, 2nd, 4th, 8th ... is logged
                log.warning(
                    "%s refused: %d connections are open (max_connections); %d refused so far",
                    connection.peer,
                    len(self.connections),
                    self._refused,
                )
            return False
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # A peer that vanished without a word is found by the kernel's probes.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connections.add(connection)
        self._empty.clear()
        return True

    def forget(self, connection: ServerConnection) -> None:
        """A connection has ended."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        if not self.connections:
            self._empty.set()
        if self._on_close is not None:
            self._on_close(connection)

    @property
    def _sweep_interval(self) -> float:
        return min(30.0, self.limits.idle_timeout / 2)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - self.limits.idle_timeout
        for connection in list(self.connections):
            if connection.resting and connection.last_activity < before:
                log.info("%s is closed: nothing moved on it", connection.peer)
                connection.abort()
        self._sweep = loop.call_later(self._sweep_interval, self._close_idle)


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
