"""Requests of simulated clients: the real connection of the clients, and nothing that retries. A
client that wants to know more about an outcome asks again itself."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final, NamedTuple, TypeVar

from tallymark.errors import ConnectError, KafkaError, TallymarkError
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connect import connect
from tallymark.protocol.messages import MetadataRequest, MetadataResponse
from tallymark.protocol.messages.k03_metadata import MetadataRequestTopic
from tallymark.protocol.schema import Message, Request
from tallymark.testing.simulation.engine.process import Process

R = TypeVar("R", bound=Message)

TIMEOUT_SECONDS: Final = 4.0


class Led(NamedTuple):
    """The leader of a partition, and its epoch."""

    broker: int
    epoch: int


class Caller:
    """The connections of one client process. ``bootstrap``: broker id -> (host, port)."""

    def __init__(self, process: Process, bootstrap: dict[int, tuple[str, int]], topic: str) -> None:
        self.process = process
        self.topic = topic
        self.topic_id = uuid.UUID(int=0)
        self._brokers = dict(bootstrap)
        self._connections: dict[int, BrokerConnection] = {}
        self._leaders: dict[int, Led] = {}
        self._next = 0

    async def ask(self, broker: int, request: Request[R]) -> R:
        """Send it to this broker. ConnectError: it was not sent; KafkaError NETWORK_EXCEPTION or
        REQUEST_TIMED_OUT: it is not known what became of it."""
        connection = await self.connection(broker)
        return await connection.request(request, timeout=TIMEOUT_SECONDS)

    async def connection(self, broker: int) -> BrokerConnection:
        """The connection to this broker. Raises ConnectError."""
        connection = self._connections.get(broker)
        if connection is None or connection.closed:
            connection = self._connections[broker] = await self.connect(broker)
        return connection

    async def connect(self, broker: int) -> BrokerConnection:
        """Another connection to this broker. Raises ConnectError."""
        host, port = self._brokers[broker]
        return await connect(host, port, TIMEOUT_SECONDS)

    def at(self, host: str, port: int) -> int:
        """The broker with this address."""
        return next(broker for broker, known in self._brokers.items() if known == (host, port))

    async def ask_any(self, request: Request[R]) -> R:
        """Send it to one broker after the other until one answers."""
        while True:
            ids = sorted(self._brokers)
            self._next += 1
            try:
                return await self.ask(ids[self._next % len(ids)], request)
            except (ConnectError, KafkaError):
                await asyncio.sleep(0.1)

    async def leader(self, partition: int) -> Led | None:
        """Its leader; None where no broker leads it."""
        if partition not in self._leaders:
            await self.look()
        return self._leaders.get(partition)

    async def look(self) -> MetadataResponse:
        """Ask for the leaders anew."""
        answer = await self.ask_any(
            MetadataRequest(topics=(MetadataRequestTopic(name=self.topic),))
        )
        self._leaders.clear()
        for topic in answer.topics:
            if topic.error_code == 0:
                self.topic_id = topic.topic_id
            for each in topic.partitions:
                if each.leader_id in self._brokers:
                    self._leaders[each.partition_index] = Led(each.leader_id, each.leader_epoch)
        return answer

    def forget(self, partition: int) -> None:
        """The leader may be another one by now."""
        self._leaders.pop(partition, None)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.abort()


def may_have_happened(error: TallymarkError) -> bool:
    """Whether a request that failed so may have been carried out."""
    return not isinstance(error, ConnectError)
