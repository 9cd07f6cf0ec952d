"""What a broker has for partitions with several replicas, made and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from tallymark.broker.connections.asking import BrokerAsker
from tallymark.broker.connections.outgoing import outgoing
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.metadata.port import StateWriter
from tallymark.broker.metrics.counters import ReplicationMetrics
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.replicas.cutting import PausedForCuts, ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.fetching import Followers
from tallymark.broker.replicas.leading import Leads
from tallymark.broker.replicas.throttles import ReplicaThrottles, rate_of
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.log import LogManager


class ReplicaParts:
    """Those of one broker. Belongs to the event loop. ``states`` writes the nodes of partitions;
    ``now_ms`` is the wall clock. UserError for a file that cannot be used (TLS between brokers)."""

    def __init__(
        self,
        settings: BrokerSettings,
        states: StateWriter,
        cleaner: PausedForCuts,
        manager: LogManager,
        partitions: Partitions,
        now_ms: Callable[[], int],
        threads: Callable[[int, str], Executor],
        metrics: ReplicationMetrics,
    ) -> None:
        loop, me = asyncio.get_running_loop(), settings.node_id
        fetching = FetchSettings.of(settings)

        def clock_ms() -> int:
            """One that is never set: a jump would put all followers out of sync."""
            return int(loop.time() * 1000)

        self.connections = SocketConnections(me, outgoing(settings))
        self.asker = BrokerAsker(me, self.connections)
        self.throttles = ReplicaThrottles(me, partitions, clock_ms)
        self.leads = Leads(me, states, clock_ms, settings.replica_lag_time_max_ms, metrics)
        self._cutter = ReplicaCutter(cleaner, manager, now_ms, threads=threads)
        self.followers = Followers(
            me,
            self.connections,
            self._cutter,
            fetching,
            now_ms,
            self.throttles.is_held_back,
            clock_ms=clock_ms,
        )
        self.take_settings(settings)

    def take_settings(self, settings: BrokerSettings) -> None:
        """Apply the settings that change at run time."""
        self.throttles.set_rate(rate_of(settings.leader_replication_throttled_rate))
        rate = rate_of(settings.follower_replication_throttled_rate)
        if rate != self.followers.throttle.rate:
            self.followers.set_throttle(rate)

    def start(self) -> None:
        """Begin to look over what is led."""
        self.leads.start()

    async def stop(self) -> None:
        """Copy nothing, and write no states any more. On return no log is being changed here."""
        await self.followers.stop()
        await self.leads.stop()
        await self._cutter.stop()
        await self.connections.close()
