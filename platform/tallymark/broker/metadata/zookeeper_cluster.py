"""A cluster whose state is stored in ZooKeeper.

Every command blocks, so all of them run on one thread of their own, in order. When a watch fires
(brokers, changes of topics, the controller, requests to delete) there is one refresh: stand for
election as controller, delete topics if elected, read the changes, apply the new image. What the
controller does with partitions of several replicas is in :mod:`.zookeeper_controller`, in a thread
of its own; the states that their leaders write are in :mod:`.zookeeper_states`, in another one.

Only the controller deletes. Any broker creates topics and partitions, changes settings and raises
levels of features: what it decides is a pure function of what was read, and the transaction
succeeds only if that has not changed. So no single process has to decide.

While the session is SUSPENDED or LOST no command succeeds, and requests that need ZooKeeper get a
retriable error; what has one replica is served, since no other broker can have taken it over.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeAlias, TypeVar

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.broker.metadata.port import LeadershipClaim, Membership, OnChange, StateOutcome
from tallymark.broker.metadata.producer_ids import ProducerIds
from tallymark.broker.metadata.shared_run import SharedRun
from tallymark.broker.metadata.zookeeper_controller import ControllerTask
from tallymark.broker.metadata.zookeeper_membership import MembershipWatch, NoLogs
from tallymark.broker.metadata.zookeeper_operations import (
    TopicCreations,
    delete_topics,
    elect_leaders,
    for_client,
    reassign,
)
from tallymark.broker.metadata.zookeeper_registration import Registration
from tallymark.broker.metadata.zookeeper_states import ZooKeeperStates
from tallymark.broker.metadata.zookeeper_view import NewTopic, ZooKeeperView
from tallymark.coordination import (
    CoordinationError,
    SessionLostError,
    SessionState,
    Watch,
    ZooKeeper,
    next_block,
    paths,
)
from tallymark.coordination.cluster.restricting import restrict_nodes
from tallymark.errors import ConnectError, KafkaError, TallymarkError
from tallymark.log import Files
from tallymark.log.disk.data_dir import read_cluster_id
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind
from tallymark.replication.features import REPLICATION
from tallymark.replication.model import ChangeState, PartitionState

log = logging.getLogger(__name__)
T = TypeVar("T")
Keys: TypeAlias = Sequence[TopicPartition]

REFRESH_SECONDS: Final = 30.0
"""Between refreshes when no watch fires: a failed step (a deletion, a disk) is tried again."""
STOP_SECONDS: Final = 3.0
"""How long a stop waits for each thing that may hang: an image that is being applied, ZooKeeper."""
_FAILURES: Final = (ConnectError, SessionLostError, CoordinationError)


class ZooKeeperCluster:
    """The :class:`~tallymark.broker.metadata.port.Cluster` for ``enable.zookeeper=true``.

    ``zookeeper`` is not started yet; this object owns it. ``folder`` is the broker's first data
    folder, locked by this process before :meth:`join`. ``on_failure`` is called on the loop when
    another broker has taken this broker's id.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        node_id: int,
        files: Files,
        folder: str,
        now_ms: Callable[[], int],
        on_failure: Callable[[TallymarkError], None],
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._zookeeper = zookeeper
        self._view = ZooKeeperView(zookeeper, node_id, now_ms)
        self._registration = Registration(zookeeper, node_id, files, folder, now_ms)
        self._on_failure, self._files, self._folder = on_failure, files, folder
        self._thread = threads(1, "tallymark-zookeeper")
        self._loop = asyncio.get_running_loop()
        self.refresh: Final = SharedRun(self._read_and_apply)
        """Reads the state and applies it; the image is not older than the call."""
        self._creations = TopicCreations(self._view.create_topics, self._run)
        self._dirty = asyncio.Event()
        self._ids = ProducerIds(lambda: self._answered(lambda: next_block(zookeeper, node_id)))
        self._watches: list[Watch] = []
        self._task: asyncio.Task[None] | None = None
        self._on_change: OnChange | None = None
        self._membership: MembershipWatch | None = None
        self._controller = ControllerTask(zookeeper, self._view.election, now_ms, threads)
        self._member, self._now_ms = Membership(NoLogs()), now_ms
        self._replicates = False
        self._states = ZooKeeperStates(zookeeper, node_id, now_ms, threads)
        self._topic_ids: Mapping[str, uuid.UUID] = {}  # of the last image that was applied
        self._stopping = False

    async def cluster_id(self) -> str:
        """Opens the session. Raises ConnectError when ZooKeeper cannot be reached."""

        def start() -> str:
            self._zookeeper.start(create_root=True)
            # If we create it, consumers may write to it even where they may not write to the root.
            self._zookeeper.ensure(paths.CONSUMERS)
            restrict_nodes(self._zookeeper)
            return self._view.check_identity(read_cluster_id(self._files, self._folder))

        return await self._run(start)

    async def join(
        self, me: BrokerImage, on_change: OnChange, membership: Membership | None = None
    ) -> None:
        """Lead our partitions (raising leader epochs where needed) before we register, so that
        other brokers have the new epochs when they see this one. UserError: our id is in use."""
        self._on_change = on_change
        member = self._member = membership or self._member
        watch = self._membership = MembershipWatch(
            self._zookeeper, member, lambda: self._registration.epoch, self._call_soon
        )
        await self._run(lambda: self._registration.check_free(me))
        await self._apply(await self._run(self._view.read))
        await self._run(
            lambda: self._registration.register(
                me, self._lost_our_id, member.logs, watch.registered
            )
        )
        self._watches += await self._run(
            lambda: self._view.watch(self._changed, self._office_changed)
        )
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="metadata refresh")
        self._task.add_done_callback(_ended)

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
        factor: int = 1,
    ) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        wanted = NewTopic(name, partitions, configs, assignment, factor)
        await for_client(self._creations.create(wanted))
        await self._refreshed()

    async def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        await self._answered(lambda: self._view.create_partitions(name, count, assignment))
        await self._refreshed()

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        await self._answered(lambda: self._view.alter_configs(name, configs))
        await self._refreshed()

    async def delete_topics(self, names: Sequence[str]) -> Mapping[str, KafkaError]:
        """See :class:`~.port.Cluster`; REQUEST_TIMED_OUT for those that are not deleted in time."""
        asked = partial(self._view.request_deletes, names)
        return await delete_topics(names, asked, self._answered, self._refreshed)

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, KafkaError]:
        failed = await reassign(self._zookeeper, targets, self._answered, self._now_ms)
        await self._refreshed()
        return failed

    async def deleted_here(self) -> Set[uuid.UUID]:
        """Empty without ZooKeeper: the logs stay on the disks until the next start."""
        try:
            return await self._run(self._view.deleted_here)
        except _FAILURES as error:
            log.warning("deleted topics are not known: %s", error)
            return frozenset()

    async def forget_deleted(self, topic_ids: Set[uuid.UUID]) -> None:
        try:
            await self._run(lambda: self._view.forget_deleted(topic_ids))
        except _FAILURES as error:
            log.warning("deleted topics stay in the list of this broker: %s", error)

    async def lead(self, claims: Sequence[LeadershipClaim]) -> Sequence[int | KafkaError]:
        return await self._answered(lambda: self._view.lead(claims))

    async def elect_leaders(
        self, kind: Kind, partitions: Keys
    ) -> Mapping[TopicPartition, KafkaError]:
        failed = await elect_leaders(
            self._zookeeper, self._member, kind, partitions, self._answered, self._now_ms
        )
        await self._refreshed()
        return failed

    async def next_producer_id(self) -> int:
        """From a block taken for this broker alone."""
        return await self._ids.next()

    async def update_features(self, levels: Mapping[str, int], validate_only: bool) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        await self._answered(lambda: self._view.raise_features(levels, validate_only))
        await self._refreshed()

    async def write_states(self, changes: Sequence[ChangeState]) -> Sequence[StateOutcome]:
        return await self._states.write(changes, self._topic_ids)

    async def read_states(self, partitions: Keys) -> Mapping[TopicPartition, PartitionState]:
        return await self._states.read(partitions, self._topic_ids)

    async def announce_leaving(self) -> bool:
        return await self._states.announce_leaving(self._registration.epoch)

    async def report_suspect(self, broker: int, epoch: int) -> None:
        await self._states.report_suspect(broker, epoch)

    async def retire(self) -> None:
        """Unregister and resign as controller; without a connection this does nothing."""
        if self._stopping:
            return
        await self._controller.stop()
        await self._stop_following()

        def go() -> None:
            try:
                if self._zookeeper.state is SessionState.CONNECTED:
                    self._registration.release()
                    self._view.resign()
            except _FAILURES as error:
                log.warning("left without unregistering: %s", error)

        await asyncio.wait([asyncio.ensure_future(self._run(go))], timeout=STOP_SECONDS)

    async def leave(self) -> None:
        """Unregister, resign, end the session; without a connection only the last."""
        await self.retire()

        def close() -> None:
            for watch in self._watches:
                watch.cancel()
            self._zookeeper.close()

        await self._states.close()
        await self._run(close)
        self._thread.shutdown()

    async def _stop_following(self) -> None:
        """Stop hearing of registrations, and applying images. One that is being applied gets
        :data:`STOP_SECONDS` to finish: a thread that opens logs cannot be cancelled."""
        task, self._task = self._task, None
        self._stopping = True
        if self._membership is not None:
            self._membership.stop()
        self._dirty.set()
        await asyncio.gather(*(one.stop(STOP_SECONDS) for one in (self._creations, self.refresh)))
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _changed(self) -> None:
        """On kazoo's thread."""
        self._call_soon(self._dirty.set)
        self._controller.wake()

    def _office_changed(self) -> None:
        """On kazoo's thread."""
        self._changed()
        self._controller.office_changed()

    def _lost_our_id(self, error: TallymarkError) -> None:
        """On kazoo's thread."""
        self._call_soon(lambda: self._on_failure(error))

    def _call_soon(self, function: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    async def _follow(self) -> None:
        """Refresh after every change, and every :data:`REFRESH_SECONDS` without one."""
        while not self._stopping:
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            if self._stopping:
                return
            if self._zookeeper.state is not SessionState.CONNECTED:
                continue  # the next CONNECTED fires every watch, which causes another refresh
            try:
                await self.refresh()
            except (ConnectError, SessionLostError) as error:
                log.warning("the image of the cluster stays as it is: %s", error)
            except TallymarkError as error:
                log.error("the image of the cluster cannot be read: %s", error)

    async def _read_and_apply(self) -> MetadataImage:
        image = await self._run(self._view.read_in_office)
        if image.features.level(REPLICATION) > 0:
            await self._replicate()
        await self._apply(image)
        return image

    async def _replicate(self) -> None:
        """Take part in what partitions with several replicas need; before the image is applied,
        since that may take long."""
        if not self._replicates and not self._stopping:
            self._replicates = True
            self._watches += await self._run(lambda: self._view.watch_notes(self._changed))
            self._controller.start(self._member)

    async def _apply(self, image: MetadataImage) -> None:
        assert self._on_change is not None, "join() comes first"
        await self._on_change(image)
        self._topic_ids = image.ids_by_name

    async def _refreshed(self) -> MetadataImage:
        return await for_client(self.refresh())

    async def _answered(self, command: Callable[[], T]) -> T:
        return await for_client(self._run(command))

    async def _run(self, command: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, command)


def _ended(task: asyncio.Task[None]) -> None:
    """Log the error of a follower task that died."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the broker follows the cluster no more", exc_info=error)
