"""Other brokers for tests of connections between brokers: each is one function, over real sockets
or in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from tallymark.broker.connections.outgoing import Outgoing
from tallymark.broker.connections.port import BrokerConnections
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.settings.listeners import Endpoint
from tallymark.net.client.versions import Ranges
from tallymark.net.server.handler import Connection
from tallymark.net.server.server import Server
from tallymark.protocol import frames
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    ApiVersionsResponse,
    ApiVersionsResponseKey,
)
from tallymark.testing.memory_connections import AnswerInMemory, MemoryConnections

HOST = "127.0.0.1"
EVERYTHING: Ranges = {int(key): versions for key, versions in ADVERTISED.items()}


def image(broker: int, port: int, listener: str = "PLAINTEXT") -> BrokerImage:
    """A broker at this port of loopback."""
    return BrokerImage(broker, {listener: Endpoint(HOST, port)})


def versions(served: Ranges, header: RequestHeader) -> bytes:
    """The response to ApiVersions."""
    keys = [
        ApiVersionsResponseKey(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in served.items()
    ]
    return frames.encode_response(
        ApiVersionsResponse(api_keys=keys), header.api_version, header.correlation_id
    )


class Peer:
    """One broker: ``answer`` gets each request. ``clients`` are the client ids that came."""

    def __init__(self, answer: AnswerInMemory, served: Ranges = EVERYTHING) -> None:
        self.clients: set[str | None] = set()
        self.server = Server(self._handle)
        self._answer = answer
        self._served = served

    async def _handle(self, header: RequestHeader, body: memoryview, _: Connection) -> bytes:
        self.clients.add(header.client_id)
        if header.api_key == ApiKey.API_VERSIONS:
            return versions(self._served, header)
        request = decode(REQUEST_CLASSES[ApiKey(header.api_key)], header.api_version, body)
        response = await self._answer(request)
        return frames.encode_response(response, header.api_version, header.correlation_id)


@asynccontextmanager
async def over_sockets(
    answers: Mapping[int, AnswerInMemory], served: Ranges = EVERYTHING
) -> AsyncIterator[BrokerConnections]:
    """These brokers on loopback, and the connections of broker 1 to them."""
    async with AsyncExitStack() as stack:
        brokers: dict[int, BrokerImage] = {}
        for broker, answer in answers.items():
            peer = Peer(answer, served)
            await peer.server.start(HOST, 0)
            stack.push_async_callback(peer.server.stop, 0.0)
            brokers[broker] = image(broker, peer.server.address.port)
        connections = SocketConnections(1, Outgoing(), connect_timeout=5.0)
        connections.brokers_changed(brokers)
        stack.push_async_callback(connections.close)
        yield connections


@asynccontextmanager
async def in_memory(
    answers: Mapping[int, AnswerInMemory], served: Ranges = EVERYTHING
) -> AsyncIterator[BrokerConnections]:
    """The same without sockets."""
    yield MemoryConnections(answers, served)
