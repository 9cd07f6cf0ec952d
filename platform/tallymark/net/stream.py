"""One asyncio connection to a broker: pipelined requests, each with a deadline.

:class:`Stream` feeds a sans-io :class:`~tallymark.net.connection.ClientConnection` from a socket.
It promises three things. Requests leave in the order of the calls of :meth:`Stream.submit`, which
does not wait. Every request ends: with its response, or with a retriable KafkaError when the
deadline passes (REQUEST_TIMED_OUT) or the connection dies (NETWORK_EXCEPTION). And a connection on
which one request timed out is closed, since the answers behind it are just as late.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tallymark.errors import CODES, ConnectError, KafkaError, ProtocolError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.connection import MAX_RESPONSE_BYTES, ClientConnection
from tallymark.net.sasl import SaslCredentials
from tallymark.net.sasl_client import authenticate
from tallymark.net.versions import common_version
from tallymark.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

CONNECT_TIMEOUT: Final = 10.0
REQUEST_TIMEOUT: Final = 30.0
_CLIENT_NAME: Final = "tallymark"
_API_VERSIONS: Final = 3
"""The version we begin with: the first that names the client's software (KIP-511)."""


class Stream(asyncio.Protocol):
    """A connected stream; make one with :meth:`connect`. Belongs to one event loop."""

    def __init__(self, address: Address, connection: ClientConnection) -> None:
        self.address = address
        self.served: Mapping[int, tuple[int, int]] = {}
        """API key -> versions the broker serves."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._deadlines: dict[int, asyncio.TimerHandle] = {}
        self._error: TallymarkError | None = None
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
    ) -> Stream:
        """Open a connection, by ``tls`` if given, learn the broker's versions and log in with
        ``sasl`` if given, all within ``timeout`` seconds.

        Raises ConnectError naming the address, the stage that failed and what to look at.
        """
        address = Address(host, port)
        deadline = asyncio.get_running_loop().time() + timeout
        connection = ClientConnection(client_id, max_response_bytes)
        stream = await _open(address, connection, deadline, tls)
        stage = "api"
        try:
            async with asyncio.timeout_at(deadline):
                await stream._negotiate()
                if sasl is not None:
                    stage = "sasl"
                    await authenticate(stream, sasl)
        except (TallymarkError, TimeoutError) as error:
            await stream.close()
            why = _not_kafka(error) if stage == "api" else _not_let_in(error)
            raise ConnectError(str(address), stage, why) from error
        except BaseException:
            stream.abort()
            raise
        return stream

    @property
    def closed(self) -> bool:
        """Whether requests can no longer be sent."""
        return self._error is not None or self._transport is None

    @property
    def due(self) -> int:
        """How many requests wait for their response."""
        return self._connection.due

    @property
    def writable(self) -> bool:
        """Whether the broker keeps up with reading what is written."""
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
        correlation_id, data = self._connection.send(message, chosen)
        future: asyncio.Future[R] = self._loop.create_future()
        self._waiting[correlation_id] = future
        self._deadlines[correlation_id] = self._loop.call_later(
            timeout, self._timed_out, type(message).__name__, timeout
        )
        transport.write(data)
        return future

    def post(self, message: Request[R], version: int | None = None) -> None:
        """Send a request that is never answered (Produce with acks=0)."""
        transport = self._open_transport()
        chosen = self.version_of(type(message)) if version is None else version
        transport.write(self._connection.send(message, chosen, expects_response=False)[1])

    async def close(self, flush_timeout: float = 1.0) -> None:
        """Let what was written leave (``flush_timeout`` seconds at most), then close. Requests
        still due fail. Closing twice does nothing."""
        if self._transport is None:
            return
        self._fail(KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: closed by us"))
        self._transport.close()
        try:
            async with asyncio.timeout(flush_timeout):
                await asyncio.shield(self._lost)
        except TimeoutError:
            self._transport.abort()
            await asyncio.shield(self._lost)

    def abort(self) -> None:
        """Close at once, without waiting for anything."""
        self._fail(KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: closed by us"))
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            responses = self._connection.receive(data)
        except ProtocolError as error:
            self._die(f"{self.address}: {error}", error)
            return
        for correlation_id, response in responses:
            self._deadlines.pop(correlation_id).cancel()
            future = self._waiting.pop(correlation_id)
            if not future.done():
                future.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"the connection broke: {exc}" if exc else "the broker closed the connection"
        self._fail(KafkaError(CODES["NETWORK_EXCEPTION"], f"{self.address}: {why}"))
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

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

    def _timed_out(self, name: str, timeout: float) -> None:
        request = name.removesuffix("Request")
        error = KafkaError(
            CODES["REQUEST_TIMED_OUT"],
            f"{self.address}: no response to {request} within {timeout:g} s",
        )
        self._fail(error)
        if self._transport is not None:
            self._transport.abort()

    def _die(self, context: str, cause: BaseException) -> None:
        error = KafkaError(CODES["NETWORK_EXCEPTION"], context)
        error.__cause__ = cause
        self._fail(error)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: TallymarkError) -> None:
        """The connection is of no use any more: everything that waits ends with ``error``."""
        if self._error is None:
            self._error = error
        for handle in self._deadlines.values():
            handle.cancel()
        self._deadlines.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
        self._writable.set()


async def _open(
    address: Address, connection: ClientConnection, deadline: float, tls: ssl.SSLContext | None
) -> Stream:
    loop = asyncio.get_running_loop()
    stage = "resolve"
    try:
        async with asyncio.timeout_at(deadline):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            stage = "connect"
            _, stream = await loop.create_connection(
                lambda: Stream(address, connection),
                address.host,
                address.port,
                ssl=tls,
                happy_eyeballs_delay=0.25 if len(found) > 1 else None,
            )
    except TimeoutError as error:
        raise ConnectError(
            str(address), stage, "no answer in time; is the address right, is a firewall between?"
        ) from error
    except ssl.SSLError as error:
        raise ConnectError(str(address), "tls", _not_secure(error)) from error
    except OSError as error:
        raise ConnectError(str(address), stage, _why(stage, error)) from error
    return stream


def _why(stage: str, error: OSError) -> str:
    reason = error.strerror or str(error)
    if stage == "resolve":
        return f"{reason}; is the host name right? (a broker tells its advertised.listeners)"
    if isinstance(error, ConnectionRefusedError):
        return "refused; is the broker running and is that its port?"
    return reason


def _not_kafka(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer to ApiVersions in time; is it a Kafka broker, is its listener plain text?"
    return f"{error}; is it a Kafka broker, is its listener plain text?"


def _not_secure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message}; does the truststore hold the broker's authority?"
    return f"{error.reason or error}; is it a listener with TLS?"


def _not_let_in(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, KafkaError) and error.code == CODES["SASL_AUTHENTICATION_FAILED"]:
        return f"{error.context}; are name and password right?"
    return str(error)
