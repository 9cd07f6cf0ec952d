"""A cluster whose truth is in ZooKeeper.

Every command blocks, so all of them run on one thread of their own, in order. A change of what is
watched (brokers, topics, the controller, requests to delete) leads to one refresh: stand for
controller, do the controller's work if elected, read everything, hand over the new picture. Any
broker may create a topic, since its nodes appear in one transaction; only the controller deletes.

While the session is SUSPENDED or LOST nothing here answers, but the broker goes on serving: every
partition has one replica, so nobody else can have taken a partition over. What needs ZooKeeper
(topics, new blocks of producer ids) is refused as retriable until it is back.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tallymark.broker.assignment import assign, check_assignment
from tallymark.broker.cluster import OnChange
from tallymark.broker.image import BrokerImage, MetadataImage
from tallymark.broker.zookeeper_registration import Registration
from tallymark.broker.zookeeper_view import ZooKeeperView
from tallymark.coordination import (
    CoordinationError,
    SessionLostError,
    SessionState,
    Watch,
    ZooKeeper,
    next_block,
)
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError
from tallymark.log import Files

log = logging.getLogger(__name__)
T = TypeVar("T")

REFRESH_SECONDS: Final = 30.0
"""The picture is read again this often even if no watch fires: a leader epoch raised by another
broker has no watch of its own."""
DELETE_SECONDS: Final = 15.0
"""How long a deletion waits for the controller."""


class ZooKeeperCluster:
    """The :class:`~tallymark.broker.cluster.Cluster` of ``enable.zookeeper=true``.

    ``zookeeper`` is not started yet; this object owns it. ``folder`` is the broker's first data
    folder, locked by this process before :meth:`join`. ``on_failure`` is called on the loop when
    the broker's id was taken by another one.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        node_id: int,
        files: Files,
        folder: str,
        now_ms: Callable[[], int],
        on_failure: Callable[[TallymarkError], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._view = ZooKeeperView(zookeeper, node_id, now_ms)
        self._registration = Registration(zookeeper, node_id, files, folder, now_ms)
        self._node_id = node_id
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, "tallymark-zookeeper")
        self._loop = asyncio.get_running_loop()
        self._refreshing = asyncio.Lock()
        self._dirty = asyncio.Event()
        self._ids: list[int] = []
        self._taking_ids = asyncio.Lock()
        self._watches: list[Watch] = []
        self._task: asyncio.Task[None] | None = None
        self._on_change: OnChange | None = None
        self._joined = False

    async def cluster_id(self) -> str:
        """Opens the session. Raises ConnectError when ZooKeeper is not there."""

        def start() -> str:
            self._zookeeper.start(create_root=True)
            return self._view.check_identity()

        return await self._run(start)

    async def join(self, me: BrokerImage, on_change: OnChange) -> None:
        """Take over what is ours (raising its leader epochs) before anyone is told that we live:
        the others read the new epochs when they see us come. UserError: our id is in use."""
        self._on_change = on_change
        await self._run(lambda: self._registration.check_free(me))
        await on_change(await self._run(self._view.read))
        self._joined = True
        await self._run(lambda: self._registration.register(me, self._lost_our_id))
        await self._run(self._watch)
        await self.refresh()
        self._task = asyncio.create_task(self._follow(), name="metadata refresh")
        self._task.add_done_callback(_ended)

    async def refresh(self) -> MetadataImage:
        """Read everything and hand it over; the picture is not older than the call."""
        async with self._refreshing:
            image = await self._run(self._view.read_in_office)
            assert self._on_change is not None, "join() comes first"
            await self._on_change(image)
            return image

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """See :class:`~tallymark.broker.cluster.Cluster`."""

        def create() -> None:
            brokers = self._view.live_brokers()
            replicas = (
                assign(partitions, brokers, len(self._view.topics.names()))
                if assignment is None
                else check_assignment(assignment, brokers)
            )
            self._view.create_topic(name, uuid.uuid4(), replicas, configs)

        await self._answered(create)
        await self._refreshed()

    async def delete_topic(self, name: str) -> None:
        """See :class:`~tallymark.broker.cluster.Cluster`; REQUEST_TIMED_OUT where the controller
        does not do it in time."""
        await self._answered(lambda: self._view.request_delete(name))
        deadline = self._loop.time() + DELETE_SECONDS
        while name in (await self._refreshed()).topics:
            if self._loop.time() > deadline:
                raise KafkaError(CODES["REQUEST_TIMED_OUT"], f"the deletion of {name}")
            await asyncio.sleep(0.05)

    async def lead(self, topic: str, index: int, log_epoch: int) -> int:
        """By compare-and-set of the partition's state node.

        A starting broker always raises the epoch, since its log may have lost its tail. Later
        only a partition appears that is new; it has the epoch it was created with.
        """
        fresh = self._joined
        return await self._answered(
            lambda: self._view.lead(topic, index, log_epoch, keep_epoch=fresh)
        )

    async def next_producer_id(self) -> int:
        """From a block taken for this broker alone."""
        async with self._taking_ids:
            if not self._ids:
                block = await self._answered(lambda: next_block(self._zookeeper, self._node_id))
                self._ids = list(reversed(block))
            return self._ids.pop()

    async def leave(self) -> None:
        """Unregister, resign, end the session; without a connection only the last."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

        def close() -> None:
            for watch in self._watches:
                watch.cancel()
            try:
                if self._zookeeper.state is SessionState.CONNECTED:
                    self._view.resign()
                    self._registration.release()
            except (ConnectError, SessionLostError, CoordinationError) as error:
                log.warning("left without unregistering: %s", error)
            self._zookeeper.close()

        await self._run(close)
        self._thread.shutdown()

    def _watch(self) -> None:
        """On the ZooKeeper thread: from here on every change ends in a refresh."""
        for watch in (self._view.brokers.watch, self._view.topics.watch, self._view.watch_office):
            self._watches.append(watch(self._changed))
        self._watches.append(self._view.topics.watch_deletions(self._changed))

    def _changed(self) -> None:
        """On kazoo's thread."""
        self._call_soon(self._dirty.set)

    def _lost_our_id(self, error: TallymarkError) -> None:
        """On kazoo's thread."""
        self._call_soon(lambda: self._on_failure(error))

    def _call_soon(self, function: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    async def _follow(self) -> None:
        """Refresh after every change, and now and then without one."""
        while True:
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            if self._zookeeper.state is not SessionState.CONNECTED:
                continue  # the next CONNECTED fires every watch, and so comes back here
            try:
                await self.refresh()
            except (ConnectError, SessionLostError) as error:
                log.warning("the picture of the cluster stays as it is: %s", error)
            except TallymarkError as error:
                log.error("the picture of the cluster cannot be read: %s", error)

    async def _refreshed(self) -> MetadataImage:
        try:
            return await self.refresh()
        except (ConnectError, SessionLostError, CoordinationError) as error:
            raise _unavailable(error) from error

    async def _answered(self, command: Callable[[], T]) -> T:
        """A command for a client: without ZooKeeper it may try again."""
        try:
            return await self._run(command)
        except (ConnectError, SessionLostError, CoordinationError) as error:
            raise _unavailable(error) from error

    async def _run(self, command: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, command)


def _ended(task: asyncio.Task[None]) -> None:
    """The follower must not die unheard."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the broker follows the cluster no more", exc_info=error)


def _unavailable(error: Exception) -> KafkaError:
    return KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(error))
