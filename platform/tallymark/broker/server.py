"""The broker: starts its parts in order, and stops them in reverse order.

Start: the cluster's id · lock the data folders, open and recover their logs · listen · join the
cluster, which opens the partitions that this broker must lead · serve. Stop: hand over leads, while
requests are still answered · unregister · stop accepting and answer parked requests · leave the
cluster · flush and close the logs, with the marker of a clean stop.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path

from tallymark.broker.connections.outgoing import read_again
from tallymark.broker.dispatch import Dispatcher
from tallymark.broker.groups.expiry import OffsetsExpiry
from tallymark.broker.leadership.apply_image import Leadership
from tallymark.broker.leadership.handing_over import hand_over
from tallymark.broker.leadership.open_manager import open_manager
from tallymark.broker.leadership.replica_parts import ReplicaParts
from tallymark.broker.listening import Listeners
from tallymark.broker.live_settings import LiveSettings
from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.metadata.local_cluster import LocalCluster
from tallymark.broker.metadata.port import Cluster, Membership
from tallymark.broker.metadata.zookeeper_cluster import ZooKeeperCluster
from tallymark.broker.monitoring.endpoint import MetricsEndpoint
from tallymark.broker.parts import BrokerParts
from tallymark.broker.ports import Ports
from tallymark.broker.replicas.local_logs import LocalLogs
from tallymark.broker.security.live import Security
from tallymark.broker.security.zookeeper_store import ZooKeeperSecurityStore
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.text import log_effective
from tallymark.broker.state import BrokerState
from tallymark.broker.stopping import StopClock
from tallymark.broker.trail.opening import admin_trail, incident_trail
from tallymark.broker.trail.trail import Trail
from tallymark.broker.transactions.looking_over import LooksOverTransactions
from tallymark.coordination import Access, ZooKeeper
from tallymark.errors import ConnectError, TallymarkError, UserError
from tallymark.log import LogManager
from tallymark.net.addresses import Address
from tallymark.replication.balance import Balancing
from tallymark.replication.features import OURS

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long a stop waits for answers to be sent."""
_SESSION = "session in ZooKeeper"


class Broker:
    """One broker on the running event loop. It must not be started twice.

    ``failed`` is done, with the error, when the broker cannot continue (another broker has taken
    its id). ``ports``: what it takes from the machine.
    """

    def __init__(self, settings: BrokerSettings, ports: Ports | None = None) -> None:
        self.settings = settings
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ports = ports or Ports()
        self._files = self._ports.files
        self._now_ms = self._ports.now_ms
        self._loop = asyncio.get_running_loop()
        self._folders = [str(path.absolute()) for path in settings.log_dirs]
        self._manager: LogManager | None = None
        self._listeners: Listeners | None = None
        self._zookeeper: ZooKeeper | None = None
        self.trail: Trail | None = None
        """The admin trail."""
        self.cleaner: Cleaner | None = None
        """Compacts logs; None until the broker serves."""
        self._cluster: Cluster | None = None
        self._replicas: ReplicaParts | None = None
        self._tasks = AsyncExitStack()
        """Stops the background tasks in the reverse order of their start."""
        self.state: BrokerState | None = None
        self._watched = MetricsEndpoint(settings, lambda: self.state)

    @property
    def address(self) -> Address:
        """The address of the first listener; the real port when 0 was requested."""
        return self.listeners.address

    @property
    def metrics_address(self) -> Address | None:
        """The address of ``/metrics`` and ``/health``, None where they are off."""
        return self._watched.address

    @property
    def listeners(self) -> Listeners:
        """The broker's listeners."""
        assert self._listeners is not None, "start() first"
        return self._listeners

    def reload_certificates(self) -> None:
        """Read keys, certificates and authorities again, for connections from now on: those of
        clients, and those that this broker opens to others. A file that cannot be used is logged,
        and what was read before stays. The broker must have been started."""
        self.listeners.reload_certificates()
        if self._replicas is not None:
            connections = self._replicas.connections
            connections.outgoing = read_again(self.settings, connections.outgoing)

    async def start(self) -> None:
        """Start to serve. UserError for a problem that the operator can solve: a taken port, a
        locked folder, a missing ZooKeeper; all parts are stopped then."""
        log_effective(self.settings, log)
        try:
            await self._start()
        except ConnectError as error:
            await self._undo()
            raise UserError(
                f"broker {self.settings.node_id} needs ZooKeeper: {error}",
                "start it (tallymark zookeeper), mend zookeeper.connect, or run a single broker "
                "with --no-zookeeper",
            ) from error
        except BaseException:
            await self._undo()
            raise

    async def stop(self) -> None:
        """Stop cleanly; everything is on the disk afterwards. Idempotent."""
        log.info("stopping broker=%d", self.settings.node_id)
        await self._hand_over()
        await self._undo()

    async def abort(self) -> None:
        """Stop as in a crash, as far as one process can: nothing is flushed, closed or
        unregistered. For tests."""
        if self._listeners is not None:
            await self._listeners.stop(0.0)
        await self._tasks.aclose()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.leave()
        if self._manager is not None:
            # Closing would flush and write the marker of a clean stop; only release the locks.
            self._manager.abandon()
            self._manager = None
        await self._watched.stop()

    async def _start(self) -> None:
        """Every part that was started comes into ``_tasks``, or into a field that
        :meth:`_undo` knows: a start that fails ends what is there."""
        await self._watched.start()
        cluster = self._cluster = self._make_cluster()
        manager = await self._open_logs(cluster)
        parts = BrokerParts(self.settings, self._ports, self._tasks)
        state = self.state = await parts.make_state(cluster, manager, self._make_security())
        listeners = await self._listen(state)
        upkeep = parts.make_upkeep(state, manager)
        self.cleaner = upkeep.cleaner
        leadership, replicas = parts.make_leadership(state, manager, upkeep)
        self._replicas = replicas
        folder, connections = Path(self._folders[0]), replicas.connections
        incidents = incident_trail(state, self._files, folder, connections)
        replicas.report = incidents.put
        replicas.start()
        await self._join(state, manager, leadership, replicas)
        await leadership.sweep_strays(delete=not state.settings.enable_zookeeper)
        upkeep.housekeeper.start()
        upkeep.cleaner.start()
        live = LiveSettings(state, listeners, leadership, upkeep.cleaner, replicas)
        self._follow_settings(state, live)
        expiry = OffsetsExpiry(state.group_shards, state.settings)
        self._tasks.push_async_callback(expiry.stop)
        expiry.start()
        transactions = LooksOverTransactions(state.transaction_shards, state.settings, self._now_ms)
        self._tasks.push_async_callback(transactions.stop)
        transactions.start()
        if self.trail is not None:
            self._tasks.push_async_callback(self.trail.stop)  # its last lines go into a log
            self.trail.start()
        self._tasks.push_async_callback(incidents.stop)
        incidents.start()
        state.serving.set()

    async def _open_logs(self, cluster: Cluster) -> LogManager:
        manager = self._manager = await asyncio.to_thread(
            open_manager,
            self._files,
            self._folders,
            self.settings,
            self._now_ms(),
            await cluster.cluster_id(),
            self._loop.time,
        )
        return manager

    async def _listen(self, state: BrokerState) -> Listeners:
        """Ports are taken before the cluster is joined; requests wait until the broker serves."""
        settings = state.settings
        self.trail = admin_trail(state, self._files, Path(self._folders[0]))
        dispatcher = Dispatcher(state, self.trail)
        listeners = self._listeners = Listeners(
            settings, dispatcher, state.logins, state.follower_connections.closed
        )
        state.metrics.connections = listeners.quota
        await listeners.start()
        return listeners

    async def _join(
        self,
        state: BrokerState,
        manager: LogManager,
        leadership: Leadership,
        replicas: ReplicaParts,
    ) -> None:
        """Returns when the partitions that this broker must lead are open."""
        settings, endpoints = state.settings, self.listeners.endpoints
        me = BrokerImage(settings.node_id, endpoints, settings.broker_rack, features=OURS)
        local = await asyncio.to_thread(LocalLogs, manager, self._files, self._ports.boot_id())
        membership = Membership(
            local,
            leadership.registered,
            leadership.resign,
            replicas.asker,
            leadership.defaults,
            Balancing(
                settings.auto_leader_rebalance_enable,
                settings.leader_imbalance_check_interval_seconds * 1000,
                settings.leader_imbalance_per_broker_percentage / 100,
            ),
            state.metrics.replication.elected_unclean,
        )
        await state.cluster.join(me, leadership.apply, membership)

    def _follow_settings(self, state: BrokerState, live: LiveSettings) -> None:
        state.security.on_brokers = live.take
        # Stopped before the parts that it changes.
        self._tasks.push_async_callback(state.security.stop)
        live.take(state.security.records.brokers)

    async def _hand_over(self) -> None:
        """Let other brokers lead before this one stops to answer."""
        state, cluster, replicas = self.state, self._cluster, self._replicas
        if state is None or cluster is None or replicas is None or not state.serving.is_set():
            return
        settings = state.settings
        tries = settings.controlled_shutdown_max_retries
        seconds = tries * settings.controlled_shutdown_retry_backoff_ms / 1000
        if settings.controlled_shutdown_enable and seconds > 0:
            await hand_over(cluster, replicas.leads, lambda: state.image, seconds)

    def _make_cluster(self) -> Cluster:
        settings = self.settings
        if not settings.enable_zookeeper:
            return LocalCluster(self._files, self._folders[0])
        zookeeper = self._zookeeper = ZooKeeper(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            connect_timeout_ms=settings.zookeeper_connection_timeout_ms,
            access=_access(settings),
            client=self._ports.zookeeper,
        )
        return ZooKeeperCluster(
            zookeeper,
            settings.node_id,
            self._files,
            self._folders[0],
            self._now_ms,
            self._fail,
            self._ports.threads,
        )

    def _make_security(self) -> Security:
        store = (
            self._ports.security_store(self.settings.log_dirs[0].absolute())
            if self._zookeeper is None
            else ZooKeeperSecurityStore(self._zookeeper)
        )
        return Security(self.settings, store)

    def _fail(self, error: TallymarkError) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    async def _undo(self) -> None:
        """Stop all running parts, in the order of a clean stop."""
        clock = StopClock(self.settings.shutdown_timeout_ms / 1000)
        if self._cluster is not None:  # so that other brokers report it to clients at once
            await clock.end("registration", self._cluster.retire())
        if self.state is not None:
            self.state.stopping.set()
            self.state.group_shards.close()
            self.state.transaction_shards.close()
            for partition in self.state.partitions:
                partition.wake()
        if self._listeners is not None:
            serving = self.state is not None and self.state.serving.is_set()
            grace = STOP_SECONDS if serving else 0.0
            await clock.end("listeners", self._listeners.stop(grace))
        await clock.end("background work", self._tasks.aclose())
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await clock.end(_SESSION, cluster.leave())
        manager, self._manager = self._manager, None
        if manager is not None:
            at_work = set(clock.left) - {_SESSION}
            await asyncio.to_thread(manager.abandon if at_work else manager.close)
        await clock.end("metrics", self._watched.stop())
        if clock.slow or clock.left:
            slow = ", ".join(clock.slow)
            log.warning("the stop was slow seconds=%.1f: %s", clock.seconds, slow or clock.left)
        if self.failed.done() and not self.failed.cancelled():
            self.failed.exception()  # marks it as seen
        self.failed.cancel()


def _access(settings: BrokerSettings) -> Access:
    known = Access.from_environment()
    return Access(
        settings.zookeeper_user or known.user,
        settings.zookeeper_password if settings.zookeeper_user else known.password,
        settings.zookeeper_set_acl and bool(settings.zookeeper_user or known.user),
    )
