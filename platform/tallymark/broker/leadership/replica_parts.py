"""What a broker has for partitions with several replicas, made and stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final
from uuid import UUID

from tallymark.broker.connections.asking import BrokerAsker
from tallymark.broker.connections.outgoing import outgoing
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.leadership.lost_epochs import LostEpochs
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.metrics.counters import ReplicationMetrics
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.replicas.cutting import GivenUp, PausedForCuts, ReplicaCutter, Saving
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.fetching import Followers
from tallymark.broker.replicas.incidents import ReplicationIncident, given_up, unclean_election
from tallymark.broker.replicas.leading import Leads
from tallymark.broker.replicas.suspects import SuspectReports
from tallymark.broker.replicas.throttles import ReplicaThrottles, rate_of
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.log import LogManager

log: Final = logging.getLogger(__name__)


class ReplicaParts:
    """Those of one broker. Belongs to the event loop. ``cluster`` writes the nodes of partitions;
    ``now_ms`` is the wall clock. UserError for a file that cannot be used (TLS between brokers)."""

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: Cluster,
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
        self.lost_epochs = LostEpochs(me, cluster)
        self.leads = Leads(me, cluster, clock_ms, settings.replica_lag_time_max_ms, metrics)
        self._me, self._now_ms, self._metrics = me, now_ms, metrics
        self.report: Callable[[ReplicationIncident], object] = lambda _: None
        """Reports an unclean election, or a cut of committed records. Returns at once."""
        self.unclean_epochs = dict[tuple[UUID, int], int]()
        """(topic id, number) of partitions that have had an unclean election -> the leader epoch of
        the last one (-1: not known)."""
        saving = None
        if settings.log_truncated_max_bytes:
            most = settings.log_truncated_max_bytes
            saving = Saving(me, most, self._unclean_epoch, self._given_up)
        self._cutter = ReplicaCutter(cleaner, manager, now_ms, threads=threads, saving=saving)
        self.suspects = SuspectReports(me, self.connections, cluster.report_suspect, clock_ms)
        self.followers = Followers(
            me,
            self.connections,
            self._cutter,
            fetching,
            now_ms,
            self.throttles.is_held_back,
            suspects=self.suspects,
            clock_ms=clock_ms,
        )
        self.take_settings(settings)

    def take_settings(self, settings: BrokerSettings) -> None:
        """Apply the settings that change at run time."""
        self.throttles.set_rate(rate_of(settings.leader_replication_throttled_rate))
        rate = rate_of(settings.follower_replication_throttled_rate)
        if rate != self.followers.throttle.rate:
            self.followers.set_throttle(rate)

    def unclean_election(self, partition: Partition) -> None:
        """This broker begins to lead it, and may lack committed records."""
        log.error(
            "leads after an unclean election partition=%s epoch=%d offset=%d high_watermark=%d: "
            "committed records may be lost, tallymark audit incidents shows which",
            partition,
            partition.leader_epoch,
            partition.log.end_offset,
            partition.high_watermark,
        )
        self.report(unclean_election(self._me, partition, self._now_ms()))

    def _unclean_epoch(self, partition: Partition) -> int | None:
        return self.unclean_epochs.get((partition.topic_id, partition.index))

    def _given_up(self, found: GivenUp) -> None:
        count = found.tail.to_offset - found.tail.from_offset
        self._metrics.given_up["saved" if found.folder else "not-saved"] += count
        self.report(given_up(found))

    def start(self) -> None:
        """Begin to look over what is led."""
        self.leads.start()

    async def stop(self) -> None:
        """Copy nothing, and write no states any more. On return no log is being changed here."""
        await self.suspects.stop()
        await self.lost_epochs.stop()
        await self.followers.stop()
        await self.leads.stop()
        await self._cutter.stop()
        await self.connections.close()
