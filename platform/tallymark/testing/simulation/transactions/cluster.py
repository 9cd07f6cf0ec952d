"""The cluster as a transactional client of a simulation sees it. Some of its requests arrive late:
the client has lost the connection by then, and has sent the request again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from tallymark.protocol.schema import Message, Request
from tallymark.testing.simulation.caller import TIMEOUT_SECONDS, Caller

R = TypeVar("R", bound=Message)
_LATE: Final = (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)


class SimulatedCluster:
    """In place of the client's Cluster. ``late``: the part of requests of transactions that are."""

    request_timeout = TIMEOUT_SECONDS

    def __init__(self, callers: Sequence[Caller], chance: Random, late: float) -> None:
        """``callers``: one for each topic, of one process."""
        self.connections = self
        self.late = late
        self.caller = callers[0]
        self._by_topic = {each.topic: each for each in callers}
        self._chance = chance
        self._under_way: set[asyncio.Task[None]] = set()

    def of(self, topic: str) -> Caller:
        """Who knows the leaders of the topic."""
        return self._by_topic[topic]

    def close(self) -> None:
        """Close all connections."""
        for caller in self._by_topic.values():
            caller.close()

    async def get(self, address: Address) -> Link:
        """A connection to this address."""
        broker = self.caller.at(address.host, address.port)
        return Link(self, broker, await self.caller.connection(broker))

    async def link(self, broker: int) -> Link:
        """A connection to this broker."""
        return Link(self, broker, await self.caller.connection(broker))

    async def ask_any(self, request: Request[R]) -> R:
        """One broker after the other."""
        return await self.caller.ask_any(request)

    def is_late(self, request: Request[R]) -> bool:
        """Drawn for each request."""
        return isinstance(request, _LATE) and self._chance.random() < self.late

    def send_later(self, broker: int, request: Request[R], version: int | None) -> None:
        """On a connection of its own; the answer is dropped."""
        delay = self._chance.choice([self._chance.uniform(0, 0.3), self._chance.uniform(0, 5)])
        task = asyncio.create_task(self._send(delay, broker, request, version))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _send(
        self, delay: float, broker: int, request: Request[R], version: int | None
    ) -> None:
        await asyncio.sleep(delay)
        try:
            connection = await self.caller.connect(broker)
            try:
                await connection.request(request, version, timeout=TIMEOUT_SECONDS)
            finally:
                connection.abort()
        except TallymarkError:
            return


class Link:
    """A connection, of which a request may be late."""

    def __init__(
        self, cluster: SimulatedCluster, broker: int, connection: BrokerConnection
    ) -> None:
        self._cluster = cluster
        self._broker = broker
        self._connection = connection

    def version_of(self, request_class: type[Message], at_most: int | None = None) -> int:
        """As the connection's."""
        return self._connection.version_of(request_class, at_most)

    async def request(
        self, message: Request[R], version: int | None = None, *, timeout: float
    ) -> R:
        """As the connection's; KafkaError NETWORK_EXCEPTION where it will arrive later."""
        if self._cluster.is_late(message):
            self._cluster.send_later(self._broker, message, version)
            raise KafkaError(CODES["NETWORK_EXCEPTION"], "simulated: it arrives later")
        return await self._connection.request(message, version, timeout=timeout)
