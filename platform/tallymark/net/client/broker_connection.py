"""One asyncio connection to a broker: pipelined requests, each with a deadline.

:class:`BrokerConnection` feeds a sans-io
:class:`~tallymark.net.client.connection.ClientConnection` from a socket. It promises three things.
Requests leave in the order of the calls of :meth:`BrokerConnection.submit`, which does not wait.
Every request ends: with its response, or with a retriable KafkaError when the deadline passes
(REQUEST_TIMED_OUT) or the connection dies (NETWORK_EXCEPTION). And a connection on which one
request timed out is closed, since the answers behind it are just as late.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tallymark.errors import CODES, KafkaError, ProtocolError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client import connect_errors as refusals
from tallymark.net.client.connection import ClientConnection, Reader, Writer
from tallymark.net.client.flow_control import FlowControl
from tallymark.net.client.in_flight import Answered, InFlightRequests
from tallymark.net.client.meter import Meter
from tallymark.net.client.versions import Ranges, common_version
from tallymark.net.inbox import Inbox, scratch_of_thread
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.protocol.schema import Message, Request

if TYPE_CHECKING:
    from tallymark.net.client.reauthentication import Held, Reauthentication

R = TypeVar("R", bound=Message)
REQUEST_TIMEOUT: Final = 30.0
_JOINED: Final = 64 * 1024
"""Up to so many bytes one copy takes less than asyncio's handling of several buffers."""


class BrokerConnection(asyncio.BufferedProtocol):
    """An open connection; make one with :func:`~tallymark.net.client.connect.connect`. Belongs to
    one event loop."""

    def __init__(self, address: Address, connection: ClientConnection) -> None:
        self.address = address
        self.meter: Meter | None = None
        """Set by an owner that measures."""
        self.served: Ranges = {}
        """API key -> versions the broker serves."""
        self._connection = connection
        limit = connection.max_response_bytes
        self._inbox = Inbox(self, scratch_of_thread(), RequestMemory(), limit, limit, frozenset())
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._in_flight = InFlightRequests(self._loop, self._timed_out)
        self._flow = FlowControl(self._loop, self._unread)
        self._parts: list[Any] = []
        """Written, not yet handed to the transport."""
        self.after_answers: Callable[[], None] = _nothing
        """Called when all responses that came together were passed to ``answered``."""
        self._error: TallymarkError | None = None
        self.doubt = ""
        """What may be wrong if the broker closes the connection before its next response."""
        self.renewal: Reauthentication | None = None
        """Logs in again before the session ends."""
        self._peer_host = ""
        self._held: list[Held] | None = None
        """Requests that wait until the connection has logged in again, in order; None: none has to
        wait."""
        self._lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._error is not None or self._transport is None

    @property
    def peer_host(self) -> str:
        """The IP address that was connected to; the host of the address where it is not known."""
        return self._peer_host or self.address.host

    @property
    def due(self) -> int:
        """How many requests wait for their response."""
        return self._connection.due

    @property
    def writable(self) -> bool:
        """Whether the broker reads as fast as we write."""
        return self._flow.writable.is_set()

    def version_of(self, request_class: type[Message], at_most: int | None = None) -> int:
        """The version :meth:`submit` would choose; KafkaError UNSUPPORTED_VERSION if none."""
        return common_version(request_class, self.served, at_most)

    async def request(
        self, message: Request[R], version: int | None = None, *, timeout: float = REQUEST_TIMEOUT
    ) -> R:
        """Send ``message`` (in the highest common version, or ``version``), return the response.

        Raises KafkaError REQUEST_TIMED_OUT or NETWORK_EXCEPTION, both retriable, and KafkaError
        UNSUPPORTED_VERSION. A cancelled request leaves the connection usable.
        """
        await self._flow.writable.wait()
        return await self.submit(message, version, timeout=timeout)

    def submit(
        self, message: Request[R], version: int | None = None, *, timeout: float = REQUEST_TIMEOUT
    ) -> asyncio.Future[R]:
        """Like :meth:`request` without waiting: the bytes are handed over before this returns, so
        that the order of calls is the order on the wire. The future ends in every case."""
        transport = self._open_transport()
        chosen = self.version_of(type(message)) if version is None else version
        future: asyncio.Future[R] = self._loop.create_future()
        if self._held is None:
            self._send(transport, message, chosen, timeout, future)
            return future

        def later(error: TallymarkError | None) -> None:
            if error is not None and not future.done():
                future.set_exception(error)
            elif not future.done():
                self._send(transport, message, chosen, timeout, future)

        self._held.append(later)
        return future

    def _send(
        self,
        transport: asyncio.Transport,
        message: Request[R],
        chosen: int,
        timeout: float,
        future: asyncio.Future[R],
    ) -> None:
        correlation_id, data = self._connection.send(message, chosen)
        self._in_flight.add(correlation_id, future, type(message).__name__, timeout)
        if self.meter is not None:
            self.meter.sent(correlation_id, type(message).__name__, len(data), answered=True)
        transport.write(data)

    def post(self, message: Request[R], version: int | None = None) -> None:
        """Send a request that is never answered (Produce with acks=0)."""
        transport = self._open_transport()
        if self._held is not None:
            self._held.append(lambda error: None if error else self.post(message, version))
            return
        chosen = self.version_of(type(message)) if version is None else version
        correlation_id, data = self._connection.send(message, chosen, expects_response=False)
        if self.meter is not None:
            self.meter.sent(correlation_id, type(message).__name__, len(data), answered=False)
        transport.write(data)

    def exchange(
        self, write: Writer, read: Reader, answered: Answered, timeout: float, name: str
    ) -> None:
        """:meth:`submit` for callers with thousands of requests a second. They write and read
        frames, ``answered(response, error)`` is called as soon as the response is read, and one
        timer has the deadlines of all requests. The bytes leave with :meth:`push`."""
        if self._error is not None:
            raise self._error
        if self._held is not None:
            self._held.append(
                lambda error: (
                    answered(None, error)
                    if error
                    else self.exchange(write, read, answered, timeout, name)
                )
            )
            return
        correlation_id, parts = self._connection.send_written(write, read)
        self._parts += parts
        if self.meter is not None:
            self.meter.sent(correlation_id, name, sum(map(len, parts)), answered=True)
        self._in_flight.add_callback(correlation_id, answered, name, timeout)

    def post_written(self, write: Writer, name: str) -> None:
        """:meth:`post` in the same way."""
        self._open_transport()
        if self._held is not None:
            self._held.append(lambda error: None if error else self.post_written(write, name))
            return
        correlation_id, parts = self._connection.send_written(write, None)
        self._parts += parts
        if self.meter is not None:
            self.meter.sent(correlation_id, name, sum(map(len, parts)), answered=False)

    def push(self) -> None:
        """Write what :meth:`exchange` and :meth:`post_written` have prepared, all at once."""
        parts, self._parts = self._parts, []
        transport = self._transport
        if parts and self._error is None and transport is not None and not transport.is_closing():
            # On a transport that is closing (the peer has hung up) asyncio's writelines() raises
            # TypeError, where write() does nothing. connection_lost() ends what waits.
            if sum(map(len, parts)) <= _JOINED:
                transport.write(b"".join(parts))
            else:
                transport.writelines(parts)

    async def close(self, flush_timeout: float = 1.0) -> None:
        """Let what was written leave (``flush_timeout`` seconds at most), then close. Requests
        still due fail. Closing twice does nothing."""
        if self._transport is None:
            return
        self._fail(KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: closed by us"))
        if not self._transport.is_closing():
            # Only once: on TLS a second close() makes asyncio's abort() do nothing from then on.
            self._transport.close()
        try:
            async with asyncio.timeout(flush_timeout):
                await asyncio.shield(self._lost)
        except TimeoutError:
            self._transport.abort()
            await asyncio.shield(self._lost)
        except asyncio.CancelledError:
            # On TLS the socket would stay for as long as the peer may take to say good-bye.
            self._transport.abort()
            raise

    def abort(self) -> None:
        """Close at once, without waiting for anything."""
        self._fail(KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: closed by us"))
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._peer_host = str(peer[0]) if isinstance(peer, tuple) else ""
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        first = b"" if self.served else bytes(self._inbox.space()[:nbytes])
        try:
            frames = self._inbox.take(nbytes)
            self._inbox.release()
            responses = [self._connection.response(frame) for frame in frames]
        except ProtocolError as error:
            why = str(error) if self.served else refusals.strange_bytes(first, error)
            self._die(f"{self.address}: {why}", error)
            return
        self.doubt = ""
        meter = self.meter
        if meter is not None:
            meter.received(nbytes)
        if self._in_flight.complete(responses, meter):
            self.after_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"the connection broke: {exc}" if exc else "the broker closed the connection"
        doubt = f" ({self.doubt})" if self.doubt else ""
        error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: {why}{doubt}")
        error.__cause__ = exc
        self._fail(error)
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    def memory_granted(self) -> None:
        """Nothing: there is always memory for a response, as far as it has come."""

    # --- reauthentication.Renewed ---------------------------------------------------------------

    def hold(self) -> None:
        """Send nothing from here on, but by :meth:`submit_now`."""
        self.push()
        self._held = []

    def submit_now(self, message: Request[R], timeout: float) -> asyncio.Future[R]:
        """:meth:`submit` before all that is held."""
        future: asyncio.Future[R] = self._loop.create_future()
        transport, chosen = self._open_transport(), self.version_of(type(message))
        self._send(transport, message, chosen, timeout, future)
        return future

    def release(self) -> None:
        """Send what was held."""
        held, self._held = self._held or [], None
        for later in held:
            later(self._error)
        self.push()

    def give_up(self, why: str, cause: BaseException) -> None:
        """Close, since the log-in cannot be renewed."""
        self._die(f"{self.address}: {why}", cause)

    # --- inside -----------------------------------------------------------------------------

    def _open_transport(self) -> asyncio.Transport:
        if self._error is not None:
            raise self._error
        assert self._transport is not None
        return self._transport

    def _timed_out(self, name: str, timeout: float) -> None:
        request = name.removesuffix("Request")
        error = KafkaError(
            CODES["REQUEST_TIMED_OUT"],
            f"{self.address}: no response to {request} within {timeout:g} s",
        )
        self._fail(error)
        if self._transport is not None:
            self._transport.abort()

    def _unread(self, seconds: float) -> None:
        """Requests have deadlines; this one is for requests that have no response (acks=0). A peer
        that vanished would block writers for as long as TCP tries, a quarter hour."""
        self._die(f"{self.address}: the broker has read nothing for {seconds:g} s", None)

    def _die(self, context: str, cause: BaseException | None) -> None:
        error = KafkaError(CODES["NETWORK_EXCEPTION"], context)
        error.__cause__ = cause
        self._fail(error)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: TallymarkError) -> None:
        """The connection is closed: all requests that wait for a response end with ``error``."""
        if self._error is None:
            self._error = error
            if self.meter is not None:
                self.meter.ended(error.name if isinstance(error, KafkaError) else "CLOSED")
        self._in_flight.fail(error)
        self._flow.resume_writing()
        self._parts = []
        if self.renewal is not None:
            self.renewal.cancel()
        for later in self._held or ():
            self._loop.call_soon(later, error)
        self._held = None


def _nothing() -> None:
    pass
