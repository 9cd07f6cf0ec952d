"""The TLS handshake of an accepted connection.

``loop.create_server(ssl=...)`` does not report a connection until its handshake is over: one that
never finishes it would be neither counted nor logged. So connections are accepted as plain ones,
counted, and turned into TLS here. This also lets a new certificate be used while the listener stays
open. It needs asyncio's own loop: uvloop reads before the handshake can take over.

::

    accepted ─► counted ─► handshake ─► the protocol that serves it
                   │           └── failed or too slow: logged, closed, no longer counted
                   └── too many: closed
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol


class Successor(Protocol):
    """The asyncio protocol that serves the connection after the handshake; it may read into buffers
    of its own."""

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None: ...

    def data_received(self, data: bytes, /) -> None:
        """Bytes that came with the last message of the handshake."""
        ...

    def connection_lost(self, exc: Exception | None, /) -> None: ...


class TlsHandshake(asyncio.Protocol):
    """The protocol of a connection until its handshake is over; then ``serve(self)`` makes
    its successor. ``ended`` is called with the reason when the handshake fails.

    Bytes may come with the last message of the handshake: they are kept for the successor.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        timeout: float,
        admit: Callable[[TlsHandshake], bool],
        serve: Callable[[TlsHandshake], Successor],
        ended: Callable[[TlsHandshake, str], None],
    ) -> None:
        self.peer = self.host = "?"
        self._context = context
        self._timeout = timeout
        self._admit = admit
        self._serve = serve
        self._ended = ended
        self._early = bytearray()
        self._lost = False
        self._successor: Successor | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.host, self.peer = names_of(transport)
        if not self._admit(self):
            transport.abort()
            return
        # The task's first step runs before the loop polls sockets again, and takes over the
        # reading.
        self._task = asyncio.get_running_loop().create_task(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._successor is not None:
            # The connection broke after the last step of the handshake and before the successor was
            # set: asyncio had bound the call to this protocol by then.
            self._successor.connection_lost(exc)

    def give_up(self) -> None:
        """Begin to abort the handshake; returns at once."""
        if self._task is not None:
            self._task.cancel()

    async def abort(self) -> None:
        """Abort the handshake; it has ended on return."""
        if self._task is not None:
            self.give_up()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._timeout,
            )
        except (OSError, ssl.SSLError) as error:  # OSError: also the timeout of a slow one
            transport.abort()
            self._fail(_why(error))
            return
        except asyncio.CancelledError:
            transport.abort()
            self._fail("given up")
            raise
        if secured is None or self._lost:
            self._fail("the client went away")
            return
        self._hand_over(secured)

    def _fail(self, why: str) -> None:
        self._ended(self, why)

    def _hand_over(self, secured: Any) -> None:
        self._successor = protocol = self._serve(self)
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(bytes(self._early))


def names_of(transport: asyncio.BaseTransport) -> tuple[str, str]:
    """The host of the other side, and ``host:port``."""
    name = transport.get_extra_info("peername")
    host = str(name[0]) if isinstance(name, tuple) else str(name or "local")
    return host, f"{host}:{name[1]}" if isinstance(name, tuple) else host


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{error.reason or error}"
    return str(error) or type(error).__name__
