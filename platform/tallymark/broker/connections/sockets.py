"""Connections to other brokers over the event loop's own: TCP, TLS, SASL, negotiated versions.

::

    id ──brokers_changed──► address of the inter-broker listener ──► dial, TLS ──► ApiVersions
                                                                    ──► SASL ──► connection

A connection is that of clients (:mod:`tallymark.net.client`), which also logs in again before its
session ends. Here are the broker's id in every error, and one kind of error for all that ends a
connection. Everything goes through ``create_connection`` of the running loop, so a simulated loop
carries it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

from tallymark.broker.connections.outgoing import Outgoing
from tallymark.broker.metadata.image import BrokerImage
from tallymark.errors import CODES, AuthenticationError, ClosedError, ConnectError, KafkaError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection as Stream
from tallymark.net.client.connect import CONNECT_TIMEOUT, connect
from tallymark.net.client.dialing import dial
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

_ENDS_A_CONNECTION: Final = (CODES["NETWORK_EXCEPTION"], CODES["REQUEST_TIMED_OUT"])


class SocketConnections:
    """See :class:`~tallymark.broker.connections.port.BrokerConnections`. ``me`` is this broker's
    id; it is the client id ``broker-7`` in requests."""

    def __init__(
        self, me: int, outgoing: Outgoing, connect_timeout: float = CONNECT_TIMEOUT
    ) -> None:
        self.outgoing = outgoing
        """For connections from now on; replaced when certificates were read again."""
        self._client_id = f"broker-{me}"
        self._timeout = connect_timeout
        self._brokers: Mapping[int, BrokerImage] = {}
        self._open: list[SocketConnection] = []
        self._closed = False

    def brokers_changed(self, brokers: Mapping[int, BrokerImage]) -> None:
        self._brokers = brokers

    async def open(self, broker: int) -> SocketConnection:
        address, outgoing = self._address(broker), self.outgoing
        if outgoing.listener.sasl and outgoing.sasl is None:
            raise AuthenticationError(
                f"broker {broker} at {address}",
                "sasl",
                f"the listener {outgoing.listener.name} asks for a log-in: set inter.broker.user "
                "and inter.broker.password",
            )
        try:
            stream = await connect(
                address.host,
                address.port,
                self._timeout,
                client_id=self._client_id,
                tls=outgoing.tls,
                sasl=outgoing.sasl,
            )
        except ConnectError as error:
            error.add(f"it is the address of broker {broker}, listener {outgoing.listener.name}")
            raise
        if self._closed:
            stream.abort()
            raise ClosedError("this broker stops")
        connection = SocketConnection(broker, stream)
        self._open = [each for each in self._open if not each.closed]
        self._open.append(connection)
        return connection

    async def is_refused(self, broker: int) -> bool:
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            address = self._address(broker)
            (await dial(address, _Probe, deadline, None)).abort()
        except ConnectError as error:
            return error.is_refused
        return False

    async def close(self) -> None:
        """Close all connections, and open no more."""
        self._closed = True
        await asyncio.gather(*(each.close() for each in self._open))

    def _address(self, broker: int) -> Address:
        if self._closed:
            raise ClosedError("this broker stops")
        image = self._brokers.get(broker)
        if image is None:
            raise ConnectError(f"broker {broker}", "resolve", "it is not among the live brokers")
        listener = self.outgoing.listener
        endpoint = image.at(listener.name)
        if endpoint is None:
            known = ", ".join(image.endpoints) or "none"
            raise ConnectError(
                f"broker {broker}",
                "resolve",
                f"it has no listener {listener.name} (it has {known}): set the same "
                "inter.broker.listener.name on all brokers",
            )
        if endpoint.protocol != listener.protocol:
            raise ConnectError(
                f"broker {broker}",
                "resolve",
                f"its listener {listener.name} is {endpoint.protocol}, here it is "
                f"{listener.protocol}: secure it in the same way on all brokers",
            )
        return Address(endpoint.host, endpoint.port)


class SocketConnection:
    """See :class:`~tallymark.broker.connections.port.BrokerConnection`; made by
    :meth:`SocketConnections.open`."""

    def __init__(self, broker: int, stream: Stream) -> None:
        self.broker = broker
        self._stream = stream

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def version_of(self, request_class: type[Message]) -> int:
        try:
            return self._stream.version_of(request_class)
        except KafkaError as error:
            raise KafkaError(error.code, f"broker {self.broker}: {error.context}") from None

    async def send(self, request: Request[R], timeout_ms: int) -> R:
        version = self.version_of(type(request))
        seconds = timeout_ms / 1000
        try:
            # Also around the wait for a peer that reads nothing; the stream's own deadline begins
            # when the request leaves.
            async with asyncio.timeout(seconds):
                return await self._stream.request(request, version, timeout=seconds)
        except TimeoutError:
            self._stream.abort()
            name = type(request).__name__.removesuffix("Request")
            raise self._error(f"no response to {name} within {seconds:g} s") from None
        except KafkaError as error:
            self._fail(error)

    async def close(self) -> None:
        await self._stream.close()

    def _fail(self, error: KafkaError) -> NoReturn:
        if error.code not in _ENDS_A_CONNECTION:
            raise error
        why = error.context.removeprefix(f"{self._stream.address}: ")
        raise self._error(why) from error

    def _error(self, why: str) -> ConnectError:
        return ConnectError(f"broker {self.broker} at {self._stream.address}", "request", why)


class _Probe(asyncio.Protocol):
    """A connection that says nothing."""

    _transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
