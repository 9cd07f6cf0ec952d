"""Finds out whether the process of another broker is gone, and reports it.

::

    a leader's connection breaks (a follower)   ┐
    a follower's connection breaks (a leader)   ├─▶ try: refused ─▶ /brokers/suspects
    a leader refuses a new connection           ┘        otherwise, look again twice

Whoever kills a process closes its connections and its listeners at the same moment, so all that
were connected hear of it at once, and no time is waited for. What is refused is reported once in a
while only (:class:`~tallymark.coordination.cluster.suspicion.Reports`); a connection that broke is
tried by one task for each broker. The controller decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from tallymark.broker.connections.port import BrokerConnections
from tallymark.coordination.cluster.suspicion import Reports
from tallymark.errors import ClosedError
from tallymark.net.server.handler import Connection
from tallymark.replication.model import BrokerView

log: Final = logging.getLogger(__name__)

LOOKS_SECONDS: Final = (0.0, 0.2, 0.8)
"""Pauses before each look: a process that is being killed may close its listener last."""


class HearsOfConnections(Protocol):
    """Is told of connections to other brokers that go wrong."""

    def refused(self, broker: int) -> None:
        """A connection to it was refused just now."""
        ...

    def lost(self, broker: int) -> None:
        """A connection with it has ended."""
        ...


class SuspectReports:
    """Those of broker ``me``. Belongs to the event loop. ``report(broker, epoch)`` writes one;
    ``clock_ms`` is a monotonic clock."""

    def __init__(
        self,
        me: int,
        connections: BrokerConnections,
        report: Callable[[int, int], Awaitable[None]],
        clock_ms: Callable[[], int],
    ) -> None:
        self._me = me
        self._connections = connections
        self._report = report
        self._clock_ms = clock_ms
        self._reports = Reports()
        self._brokers: Mapping[int, BrokerView] = {}
        self._looking: dict[int, asyncio.Task[None]] = {}
        self._reporting: set[asyncio.Task[None]] = set()
        self._stopped = False

    def brokers_changed(self, brokers: Mapping[int, BrokerView]) -> None:
        """These are the registered brokers."""
        self._brokers = brokers

    def refused(self, broker: int) -> None:
        """A connection to it was refused just now."""
        known = self._brokers.get(broker)
        if self._stopped or known is None or known.epoch < 0 or broker == self._me:
            return  # it is not registered: there is nothing left to take from it
        if self._reports.is_due(broker, known.epoch, self._clock_ms()):
            log.warning(
                "broker %d refuses connections, reported as suspect epoch=%d", broker, known.epoch
            )
            task = asyncio.create_task(self._write(broker, known.epoch))
            self._reporting.add(task)
            task.add_done_callback(self._reporting.discard)

    def lost(self, broker: int) -> None:
        """A connection with it has ended: find out whether its process has."""
        if self._stopped or broker not in self._brokers or broker in self._looking:
            return
        task = asyncio.create_task(self._look(broker), name=f"look whether broker {broker} is gone")
        self._looking[broker] = task
        task.add_done_callback(lambda _: self._looking.pop(broker, None))

    async def stop(self) -> None:
        """Report nothing any more."""
        self._stopped = True
        tasks = [*self._looking.values(), *self._reporting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, broker: int) -> None:
        for pause in LOOKS_SECONDS:
            await asyncio.sleep(pause)
            try:
                if await self._connections.is_refused(broker):
                    self.refused(broker)
                    return
            except ClosedError:
                return

    async def _write(self, broker: int, epoch: int) -> None:
        await self._report(broker, epoch)


class FollowerConnections:
    """Which connections of this broker's listeners are those of followers. ``lost`` is called with
    the broker whose connection has ended."""

    def __init__(self) -> None:
        self.lost: Callable[[int], None] = lambda broker: None
        self._broker: dict[Connection, int] = {}

    def fetched(self, connection: Connection, broker: int) -> None:
        """The connection has carried a Fetch of this follower."""
        if not connection.closed:
            self._broker[connection] = broker

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        broker = self._broker.pop(connection, None)
        if broker is not None:
            self.lost(broker)
