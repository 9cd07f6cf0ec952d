"""Logs that this broker does not need any more: of deleted topics, and of replicas that were moved
away.

::

    topic deleted      orders-0 ──▶ orders-0.<hex>-delete ──▶ removed at once
    replica moved away orders-0 ──▶ orders-0.<hex>-stray  ──▶ removed log.segment.delete.delay.ms
                                                              later, after a restart, too

A log counts as moved away where the image has the topic with the id that is in the log's folder,
the partition's replicas are others, and one of these leads it. Anything else that is not known of
the log keeps it: a topic of which the image has no trace may be one of ZooKeeper's data that was
lost, at a start and later. The data directory is of this cluster (``meta.properties``), or the
broker had not started.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from tallymark.broker.leadership.open_logs import LogOpener
from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.partitions.table import Partitions
from tallymark.log import LogManager
from tallymark.log.disk.partition_folder import LogKey

log = logging.getLogger(__name__)

_TICK_MS = 5000


class UnneededLogs:
    """Those of broker ``me``. Belongs to the event loop; threads wait for the disk. ``now_ms`` is
    the wall clock."""

    def __init__(
        self,
        me: int,
        cluster: Cluster,
        manager: LogManager,
        partitions: Partitions,
        opener: LogOpener,
        now_ms: Callable[[], int],
    ) -> None:
        self._me = me
        self._cluster = cluster
        self._manager = manager
        self._partitions = partitions
        self._opener = opener
        self._now_ms = now_ms
        self._removing: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._stopping = False

    async def stop(self) -> None:
        """Stop removing files; the next start goes on."""
        self._stopping = True
        if self._waiting is not None:
            self._waiting.cancel()
        tasks = [each for each in (self._removing, self._waiting) if each is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def deleted_of(self, gone: set[UUID]) -> set[UUID]:
        """Those of these topics, which the image has no more, that were deleted. A deletion is
        listed for each broker that has replicas: where this one has logs and nothing is listed,
        ZooKeeper has lost the topic, and its logs and offsets stay."""
        here = {key: id_ for key in self._manager if (id_ := self._manager.topic_id(*key)) in gone}
        if not here:
            return gone
        deleted = await self._cluster.deleted_here()
        lost = {key: id_ for key, id_ in here.items() if id_ not in deleted}
        for key, topic_id in lost.items():
            log.error(
                "log left alone partition=%s id=%s: the topic is gone from the cluster and was not"
                " deleted; bring back ZooKeeper's data, or remove the log while this broker is"
                " stopped",
                key,
                topic_id,
            )
        return gone.difference(each for each in lost.values() if each is not None)

    async def of_deleted(self, gone: set[UUID]) -> None:
        """Delete logs by topic id, led or not: the nodes of a topic with very many partitions are
        deleted in steps, and an image read meanwhile has the topic without its leaders."""
        if gone:
            doomed = [key for key in self._manager if self._manager.topic_id(*key) in gone]
            await self._delete(doomed, gone)

    async def of_moved(self, topics: Iterable[TopicImage]) -> None:
        """Set aside the logs of partitions of these topics that are on other brokers now. No
        partition of this broker uses them any more."""
        strays = [key for topic in topics for key in self._moved_away(topic)]
        if strays:
            for key in strays:
                log.info("log set aside partition=%s: its replicas are on other brokers", key)
            await asyncio.to_thread(self._opener.delete, strays, stray_since_ms=self._now_ms())
        if self._manager.deleted.has_strays and self._waiting is None and not self._stopping:
            self._waiting = asyncio.create_task(self._remove_strays(), name="remove stray logs")

    async def sweep(self, image: MetadataImage, *, delete: bool) -> None:
        """At a start: handle logs that belong to no topic. Logs of topics that are known to be
        deleted (while this broker was down, or before it had finished) are deleted. For the others
        the image may be wrong, if it comes from elsewhere: their files are kept and logged, unless
        ``delete``."""
        deleted = await self._cluster.deleted_here()
        doomed: list[LogKey] = []
        for key in self._manager:
            topic_id = self._manager.topic_id(*key)
            if topic_id in image.names_by_id or (topic_id is None and key.topic in image.topics):
                continue
            goes = delete or topic_id in deleted
            log.warning(
                "stray log %s partition=%s: the cluster has no such topic",
                "deleted" if goes else "left alone",
                key,
            )
            doomed += [key] if goes else []
        await self._delete(doomed, set(deleted))

    def _moved_away(self, topic: TopicImage) -> Iterator[LogKey]:
        for index, partition in enumerate(topic.partitions):
            key = LogKey(topic.name, index)
            if (
                is_elsewhere(partition, self._me)
                and self._manager.topic_id(*key) == topic.topic_id
                and self._partitions.held(*key) is None
            ):
                yield key

    async def _delete(self, doomed: list[LogKey], gone: set[UUID]) -> None:
        """Delete these logs. A disk that is not available may have more of them: then the list is
        kept for the next start."""
        done = await asyncio.to_thread(self._opener.delete, doomed)
        self._remove_soon()
        if gone and done and not self._manager.offline_dirs:
            await self._cluster.forget_deleted(gone)

    def _remove_soon(self) -> None:
        if self._removing is None or self._removing.done():
            self._removing = asyncio.create_task(self._remove_files(), name="remove files")

    async def _remove_files(self) -> None:
        while self._manager.has_deleted and not self._stopping:
            await asyncio.to_thread(self._manager.remove_deleted, lambda: self._stopping)

    async def _remove_strays(self) -> None:
        while self._manager.deleted.has_strays:
            delay_ms = self._opener.settings.log_segment_delete_delay_ms
            await asyncio.sleep(min(_TICK_MS, delay_ms) / 1000)
            if self._manager.deleted.release(self._now_ms() - delay_ms):
                self._remove_soon()
        self._waiting = None


def is_elsewhere(partition: PartitionImage, me: int) -> bool:
    """Whether all replicas are on other brokers, and one of them leads."""
    return me not in partition.replicas and partition.leader in partition.replicas
