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
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tallymark.errors import CODES, KafkaError, ProtocolError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client import connect_errors as refusals
from tallymark.net.client.connection import MAX_RESPONSE_BYTES, ClientConnection, Reader, Writer
from tallymark.net.client.dialing import dial, resolved
from tallymark.net.client.meter import Meter
from tallymark.net.client.versions import common_version
from tallymark.net.inbox import SCRATCH_BYTES, Inbox
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.net.sasl.mechanisms import SaslCredentials
from tallymark.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from tallymark.protocol.schema import Message, Request

if TYPE_CHECKING:
    from tallymark.net.client.reauthentication import Held, Reauthentication

R = TypeVar("R", bound=Message)
Answered: TypeAlias = Callable[[Any, TallymarkError | None], None]
"""``answered(response, error)``: one of them is None."""

CONNECT_TIMEOUT: Final = 10.0
REQUEST_TIMEOUT: Final = 30.0
UNREAD_TIMEOUT: Final = 30.0
"""Seconds without room for more bytes after which a connection is given up."""
_JOINED: Final = 64 * 1024
"""Up to so many bytes one copy takes less than asyncio's handling of several buffers."""
_CLIENT_NAME: Final = "tallymark"
_API_VERSIONS: Final = 3
"""The version we begin with: the first that names the client's software (KIP-511)."""


class BrokerConnection(asyncio.BufferedProtocol):
    """An open connection; make one with :meth:`connect`. Belongs to one event loop."""

    def __init__(self, address: Address, connection: ClientConnection) -> None:
        self.address = address
        self.meter: Meter | None = None
        """Set by an owner that measures."""
        self.served: Mapping[int, tuple[int, int]] = {}
        """API key -> versions the broker serves."""
        self._connection = connection
        limit = connection.max_response_bytes
        self._inbox = Inbox(self, _scratch(), RequestMemory(), limit, limit, frozenset())
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._deadlines: dict[int, asyncio.TimerHandle] = {}
        self._parts: list[Any] = []
        """Written, not yet handed to the transport."""
        self._exchanges: dict[int, tuple[Answered, float, str, float]] = {}
        """Correlation id -> callback, deadline, name and timeout of the request; oldest first."""
        self._watch: asyncio.TimerHandle | None = None
        self.after_answers: Callable[[], None] = _nothing
        """Called when all responses that came together were passed to ``answered``."""
        self._error: TallymarkError | None = None
        self._doubt = ""
        self._stuck: asyncio.TimerHandle | None = None
        self._peer_host = ""
        self._renewal: Reauthentication | None = None
        self._held: list[Held] | None = None
        """Requests that wait until the connection has logged in again, in order; None: none has to
        wait."""
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        timeout: float = CONNECT_TIMEOUT,
        *,
        client_id: str | None = _CLIENT_NAME,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        tls: ssl.SSLContext | None = None,
        sasl: SaslCredentials | None = None,
    ) -> BrokerConnection:
        """Open a connection, by ``tls`` if given, learn the broker's versions and log in with
        ``sasl`` if given, all within ``timeout`` seconds.

        Raises ConnectError naming the address, the stage that failed and what to look at;
        AuthenticationError where trying again cannot help.
        """
        address = Address(host, port)
        deadline = asyncio.get_running_loop().time() + timeout
        connection = ClientConnection(client_id, max_response_bytes)
        stream = await dial(address, lambda: BrokerConnection(address, connection), deadline, tls)
        stage = "api"
        try:
            async with asyncio.timeout_at(deadline):
                await stream._negotiate()
                if sasl is not None:
                    stage = "sasl"
                    await stream._log_in(sasl)
        except (TallymarkError, TimeoutError) as error:
            refusal = (
                refusals.not_logged_in(str(address), error)
                if stage == "sasl"
                else refusals.unanswered(str(address), error, tls=tls is not None)
            )
            refusal.add("", resolved(address, [stream.peer_host]))
            await stream.close()
            raise refusal from error
        except BaseException:
            stream.abort()
            raise
        stream._doubt = "" if sasl is not None else refusals.NO_LOG_IN
        return stream

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
        return self._writable.is_set()

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
        await self._writable.wait()
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
        self._waiting[correlation_id] = future
        self._deadlines[correlation_id] = self._loop.call_later(
            timeout, self._timed_out, type(message).__name__, timeout
        )
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
        self._open_transport()
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
        deadline = self._loop.time() + timeout
        self._exchanges[correlation_id] = (answered, deadline, name, timeout)
        if self._watch is None:
            self._watch = self._loop.call_at(deadline, self._look_at_deadlines)

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
        self._doubt = ""
        meter = self.meter
        if meter is not None:
            meter.received(nbytes)
        exchanges = self._exchanges
        any_exchange = False
        for correlation_id, response in responses:
            if meter is not None:
                meter.answered(correlation_id)
            if correlation_id in exchanges:
                exchanges.pop(correlation_id)[0](response, None)
                any_exchange = True
                continue
            self._deadlines.pop(correlation_id).cancel()
            future = self._waiting.pop(correlation_id)
            if not future.done():
                future.set_result(response)
        if any_exchange:
            self.after_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"the connection broke: {exc}" if exc else "the broker closed the connection"
        doubt = f" ({self._doubt})" if self._doubt else ""
        error = KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: {why}{doubt}")
        error.__cause__ = exc
        self._fail(error)
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._stuck = self._loop.call_later(UNREAD_TIMEOUT, self._unread)

    def resume_writing(self) -> None:
        self._writable.set()
        if self._stuck is not None:
            self._stuck.cancel()

    def memory_granted(self) -> None:
        """Nothing: there is always memory for a response, as far as it has come."""

    # --- log_in_again.Renewed ---------------------------------------------------------------

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

    async def _negotiate(self) -> None:
        """Ask what the broker serves: as v3, and when it answers "unsupported version" in the
        form of v0 (KIP-511), as the version that this answer allows; a v0 answer that lists
        nothing about itself means v0."""
        response = await self._ask_versions(_API_VERSIONS)
        if response.error_code == CODES["UNSUPPORTED_VERSION"]:
            own = {key.api_key: key.max_version for key in response.api_keys}
            lower = min(own.get(ApiVersionsRequest.api_key, 0), _API_VERSIONS - 1)
            response = await self._ask_versions(lower)
        if response.error_code:
            raise KafkaError(response.error_code, "ApiVersions")
        self.served = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}

    async def _log_in(self, credentials: SaslCredentials) -> None:
        from tallymark.net.client.authentication import authenticate
        from tallymark.net.client.reauthentication import Reauthentication  # hashes, and their APIs

        lifetime = await authenticate(self, credentials)
        self._renewal = Reauthentication(self, credentials)
        self._renewal.holds_for(lifetime)

    def _ask_versions(self, version: int) -> asyncio.Future[ApiVersionsResponse]:
        request = ApiVersionsRequest(
            client_software_name=_CLIENT_NAME, client_software_version="0.1.0"
        )
        return self.submit(request, version)

    def _open_transport(self) -> asyncio.Transport:
        if self._error is not None:
            raise self._error
        assert self._transport is not None
        return self._transport

    def _look_at_deadlines(self) -> None:
        """The oldest exchange is the first to be late, as timeouts are alike; if it is not, look
        again when it will be."""
        self._watch = None
        if not self._exchanges:
            return
        _, deadline, name, timeout = next(iter(self._exchanges.values()))
        if deadline <= self._loop.time():
            self._timed_out(name, timeout)
        else:
            self._watch = self._loop.call_at(deadline, self._look_at_deadlines)

    def _timed_out(self, name: str, timeout: float) -> None:
        request = name.removesuffix("Request")
        error = KafkaError(
            CODES["REQUEST_TIMED_OUT"],
            f"{self.address}: no response to {request} within {timeout:g} s",
        )
        self._fail(error)
        if self._transport is not None:
            self._transport.abort()

    def _unread(self) -> None:
        """Requests have deadlines; this one is for requests that have no response (acks=0). A peer
        that vanished would block writers for as long as TCP tries, a quarter hour."""
        self._die(f"{self.address}: the broker has read nothing for {UNREAD_TIMEOUT:g} s", None)

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
        for handle in self._deadlines.values():
            handle.cancel()
        self._deadlines.clear()
        if self._stuck is not None:
            self._stuck.cancel()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
        self._writable.set()
        exchanges, self._exchanges = self._exchanges, {}
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._parts = []
        if exchanges:
            self._loop.call_soon(_fail_all, [one[0] for one in exchanges.values()], error)
        if self._renewal is not None:
            self._renewal.cancel()
        for later in self._held or ():
            self._loop.call_soon(later, error)
        self._held = None


def _nothing() -> None:
    pass


def _fail_all(everyone: Sequence[Answered], error: TallymarkError) -> None:
    for answered in everyone:
        answered(None, error)


_of_thread: Final = threading.local()


def _scratch() -> memoryview:
    """Where bytes arrive first: one for all connections of a thread, hence of an event loop."""
    scratch: memoryview | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = memoryview(bytearray(SCRATCH_BYTES))
    return scratch
