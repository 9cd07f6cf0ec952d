"""Connections between brokers in memory, for tests of what uses them.

The twin of :class:`tallymark.broker.connections.sockets.SocketConnections`: each broker is a
function from request to response::

    async def leader(request): return FetchResponse(...)

    connections = MemoryConnections({2: leader})
    connection = await connections.open(2)
    answer = await connection.send(FetchRequest(), 1000)

Requests and responses go through their wire forms, so a field that the version does not have is
lost here as it is there. A broker that is not in ``answers`` is not known; one in ``refusing``
refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tallymark.broker.metadata.image import BrokerImage
from tallymark.errors import ConnectError
from tallymark.net.client.versions import Ranges, common_version
from tallymark.protocol.api import ADVERTISED
from tallymark.protocol.codec import decode, encode
from tallymark.protocol.messages import response_class
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
AnswerInMemory = Callable[[Any], Awaitable[Message]]


class MemoryConnections:
    """See :class:`~tallymark.broker.connections.port.BrokerConnections`. ``served``: the versions
    of the brokers."""

    def __init__(self, answers: Mapping[int, AnswerInMemory], served: Ranges | None = None) -> None:
        self.answers = dict(answers)
        self.refusing: set[int] = set()
        self.served = served or {int(key): versions for key, versions in ADVERTISED.items()}
        self.opened: list[MemoryConnection] = []
        """Every connection, in order."""
        self.brokers: Mapping[int, BrokerImage] = {}
        """As they were reported last."""

    def brokers_changed(self, brokers: Mapping[int, BrokerImage]) -> None:
        self.brokers = brokers

    async def open(self, broker: int) -> MemoryConnection:
        await asyncio.sleep(0)
        if broker in self.refusing:
            refusal = ConnectError(f"broker {broker}", "connect", "refused")
            refusal.is_refused = True
            raise refusal
        if broker not in self.answers:
            raise ConnectError(f"broker {broker}", "resolve", "it is not among the live brokers")
        connection = MemoryConnection(broker, self)
        self.opened.append(connection)
        return connection

    async def is_refused(self, broker: int) -> bool:
        await asyncio.sleep(0)
        return broker in self.refusing

    async def break_all(self, broker: int) -> None:
        """Close every connection to a broker, as its death does."""
        for each in self.opened:
            if each.broker == broker:
                await each.close()


class MemoryConnection:
    """See :class:`~tallymark.broker.connections.port.BrokerConnection`."""

    def __init__(self, broker: int, connections: MemoryConnections) -> None:
        self.broker = broker
        self.closed = False
        self.sent: list[Any] = []
        """Requests as the broker read them."""
        self._connections = connections
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turn = asyncio.Lock()
        """Answers come in the order of the requests."""

    def version_of(self, request_class: type[Message]) -> int:
        return common_version(request_class, self._connections.served)

    async def send(self, request: Request[R], timeout_ms: int) -> R:
        version = self.version_of(type(request))
        if self.closed:
            raise self._error("closed by us")
        wire = encode(request, version)
        answering = asyncio.ensure_future(self._answer(request, version, wire))
        try:
            await asyncio.wait(
                (answering, self._gone),
                timeout=timeout_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answering.done() and not self.closed:
                response: R = answering.result()
                return response
            why = "the broker closed the connection" if self.closed else "no response in time"
            await self.close()
            raise self._error(why)
        finally:
            answering.cancel()

    async def close(self) -> None:
        self.closed = True
        if not self._gone.done():
            self._gone.set_result(None)

    async def _answer(self, request: Request[Any], version: int, wire: bytes) -> Any:
        async with self._turn:
            asked = decode(type(request), version, wire)
            self.sent.append(asked)
            answer = await self._connections.answers[self.broker](asked)
        return decode(response_class(type(request)), version, encode(answer, version))

    def _error(self, why: str) -> ConnectError:
        return ConnectError(f"broker {self.broker}", "request", why)
