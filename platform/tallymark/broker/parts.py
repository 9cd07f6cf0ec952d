"""Makes the parts of a broker, in the order of its start.

::

    state        settings in force, partitions, groups, users and access-control lists
    upkeep       housekeeping, compaction, threads that prepare batches
    leadership   which partitions are led and followed here

The end of each part comes into one stack when it is made, so a start that fails half way ends what
is there, and a stop ends everything in the reverse order.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.leadership.apply_image import Leadership
from tallymark.broker.leadership.replica_parts import ReplicaParts
from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.maintenance.housekeeping import Housekeeper
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.metrics.counters import BrokerMetrics
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.partitions.verifier import Verifier
from tallymark.broker.ports import Ports
from tallymark.broker.requests.asking_coordinators import AskingCoordinators
from tallymark.broker.requests.write_markers import write_markers
from tallymark.broker.security.live import Security
from tallymark.broker.security.sasl_logins import Logins
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.dynamic import Dynamic
from tallymark.broker.state import BrokerState
from tallymark.broker.transactions.sending import MarkerSender
from tallymark.log import LogManager

_PREPARERS: Final = 2
"""Threads that prepare producers' batches: enough for the disk, and few enough to leave processors
to log-ins and fetches, which have threads of their own."""


class Upkeep(NamedTuple):
    """What looks after logs in the background, and prepares batches for them."""

    housekeeper: Housekeeper
    preparers: Executor
    cleaner: Cleaner


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """``settings`` are those of the start, ``tasks`` ends what is made here."""

    settings: BrokerSettings
    ports: Ports
    tasks: AsyncExitStack

    async def make_state(
        self, cluster: Cluster, manager: LogManager, security: Security
    ) -> BrokerState:
        """With users, access-control lists, and settings that were changed at run time."""
        static, tasks, now_ms = self.settings, self.tasks, self.ports.now_ms
        partitions, group_shards = Partitions(), GroupShards(static, now_ms)
        tasks.push_async_callback(security.stop)
        await security.start()
        dynamic = Dynamic.of(security.records.brokers, static.node_id)
        settings = dynamic.on(static)
        logins = Logins(settings, security, lambda: now_ms() / 1000, self.ports.threads)
        tasks.push_async_callback(logins.stop)
        await logins.start()
        state = BrokerState(settings, partitions, cluster, group_shards, now_ms, security, logins)
        state.static_settings, state.dynamic = static, dynamic
        state.metrics = BrokerMetrics(settings.metrics_max_topics)
        state.logs = manager
        state.fetch_sessions.slots = settings.max_incremental_fetch_session_cache_slots
        state.authorizer = security.authorizer
        tasks.push_async_callback(state.timed_changes.stop)
        tasks.callback(group_shards.close)
        tasks.callback(state.transaction_shards.close)
        return state

    def make_upkeep(self, state: BrokerState, manager: LogManager) -> Upkeep:
        """What looks after the logs; nothing runs yet."""
        tasks, threads, counts = self.tasks, self.ports.threads, state.metrics.upkeep
        housekeeper = Housekeeper(
            state.partitions, manager, state.settings, self.ports.now_ms, counts, threads
        )
        tasks.push_async_callback(housekeeper.stop)
        preparers = threads(_PREPARERS, "tallymark-prepare")
        tasks.push_async_callback(_stop_appends, state.partitions, preparers)
        logs = [each for key in manager if (each := manager.get(*key)) is not None]
        cleaner = Cleaner(
            state.partitions,
            logs,
            state.settings,
            self.ports.files,
            self.ports.now_ms,
            counts,
            self.ports.compaction(self.ports.files),
            threads,
        )
        tasks.push_async_callback(cleaner.stop)
        return Upkeep(housekeeper, preparers, cleaner)

    def make_leadership(
        self, state: BrokerState, manager: LogManager, upkeep: Upkeep
    ) -> tuple[Leadership, ReplicaParts]:
        """What makes partitions match the image of the cluster."""
        settings, tasks, threads = state.settings, self.tasks, self.ports.threads
        replicas = ReplicaParts(
            settings,
            state.cluster,
            upkeep.cleaner,
            manager,
            state.partitions,
            self.ports.now_ms,
            threads,
            state.metrics.replication,
        )
        state.throttles = replicas.throttles
        state.metrics.following = replicas.followers.now
        state.metrics.throttles = {
            "leader": replicas.throttles.leading,
            "follower": replicas.followers.throttle,
        }
        state.follower_connections.lost = replicas.suspects.lost
        tasks.push_async_callback(replicas.stop)
        markers = state.markers = MarkerSender(
            settings.node_id,
            replicas.connections,
            lambda: state.image,
            lambda request: write_markers(state, request),
        )
        state.transaction_shards.sender = markers
        asking = AskingCoordinators(state, replicas.connections)
        tasks.push_async_callback(asking.stop)
        state.verifier = Verifier(asking.ask, self.ports.now_ms)
        tasks.push_async_callback(state.verifier.stop)
        tasks.push_async_callback(markers.stop)
        leadership = Leadership(
            settings,
            state.cluster,
            manager,
            state.partitions,
            state.group_shards,
            self.ports.now_ms,
            upkeep.housekeeper.want_flush,
            state.metrics.topic,
            upkeep.preparers,
            threads,
            replicas,
            state.transaction_shards,
        )
        tasks.push_async_callback(leadership.stop)
        return leadership, replicas


async def _stop_appends(partitions: Partitions, preparers: Executor) -> None:
    """Refuse batches that are being prepared: they must not reach a log that is being
    closed."""
    for each in partitions:
        await each.close()
    await asyncio.to_thread(preparers.shutdown)
