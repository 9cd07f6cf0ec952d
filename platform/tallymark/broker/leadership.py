"""Making the partitions of this broker fit the picture of the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from tallymark.broker.cluster import Cluster
from tallymark.broker.image import MetadataImage, TopicImage
from tallymark.broker.offsets_store import OffsetsStore
from tallymark.broker.partition import Partition
from tallymark.broker.partitions import Partitions
from tallymark.broker.settings import BrokerSettings
from tallymark.broker.topic_rules import log_config, understood
from tallymark.errors import KafkaError, TallymarkError
from tallymark.groups.placement import OFFSETS_TOPIC
from tallymark.log import Log, LogManager

log = logging.getLogger(__name__)


class Leadership:
    """Opens what this broker is to lead, deletes what is gone, puts the picture in force.

    :meth:`apply` is called by one caller at a time. The disk is waited for in a thread; the table
    of partitions changes on the loop only.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: Cluster,
        manager: LogManager,
        partitions: Partitions,
        offsets: OffsetsStore,
        now_ms: Callable[[], int],
        flush_wanted: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._manager = manager
        self._partitions = partitions
        self._offsets = offsets
        self._now_ms = now_ms
        self._flush_wanted = flush_wanted
        self._loading: set[asyncio.Task[None]] = set()
        self._told = False

    async def apply(self, image: MetadataImage) -> None:
        """Act by ``image``. Partitions are open before the picture says that we lead them, and
        said to be gone before their files go."""
        before = self._partitions.image
        gone = {t.topic_id for t in before.topics.values()} - set(image.names_by_id)
        self._withdraw(image, gone)
        for topic, index, _ in image.led_by(self._settings.node_id):
            if self._partitions.get(topic.name, index) is None:
                await self._open(topic, index)
        self._partitions.image = image
        self._partitions.forget_offline(image)
        await self._delete_logs(gone)
        self._tell(before, image)

    def _withdraw(self, image: MetadataImage, gone: set[UUID]) -> None:
        """Lead no more what is gone or another's."""
        for partition in self._partitions:
            topic = image.topics.get(partition.topic)
            if (
                topic is not None
                and topic.topic_id == partition.topic_id
                and topic.partitions[partition.index].leader == self._settings.node_id
            ):
                continue
            self._partitions.remove(partition)
            self._offsets.give_up(partition)
            if partition.topic_id in gone:
                # At once, so that a fetch woken by this is told that the topic is gone.
                self._partitions.image = self._partitions.image.without_topic(partition.topic)

    async def stop(self) -> None:
        """Load no more."""
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)

    async def _open(self, topic: TopicImage, index: int) -> None:
        where = f"{topic.name}-{index}"
        try:
            opened = await asyncio.to_thread(self._log_of, topic, index)
            epoch = await self._cluster.lead(topic.name, index, opened.next_epoch - 1)
            await asyncio.to_thread(opened.start_epoch, epoch)
        except TallymarkError as error:
            log.error("partition offline partition=%s: %s", where, error)
            self._partitions.set_offline(topic.name, index, str(error))
            return
        partition = Partition(topic.name, index, topic.topic_id, opened, epoch, self._flush_wanted)
        log.info(
            "leader epoch started partition=%s epoch=%d offset=%d",
            where,
            epoch,
            opened.end_offset,
        )
        self._partitions.add(partition)
        if topic.name == OFFSETS_TOPIC:
            self._load(partition)

    def _log_of(self, topic: TopicImage, index: int) -> Log:
        """In a thread: the partition's log, a new one where there is none of this topic id."""
        there = self._manager.topic_id(topic.name, index)
        if there is not None and there != topic.topic_id:
            log.warning(
                "log deleted partition=%s-%d: it is of the topic id %s, which was deleted",
                topic.name,
                index,
                there,
            )
            self._manager.delete(topic.name, index)
        opened = self._manager.create(topic.name, index, topic.topic_id, self._now_ms())
        known = understood(topic.configs)
        if len(known) != len(topic.configs):
            log.warning(
                "topic configs ignored name=%s: %s",
                topic.name,
                sorted(set(topic.configs) - set(known)),
            )
        opened.config = log_config(self._settings, known)
        return opened

    def _load(self, partition: Partition) -> None:
        """Replay committed offsets beside everything else; commits wait for it with an error."""
        task = asyncio.create_task(self._offsets.take(partition), name=f"load {partition}")
        self._loading.add(task)
        task.add_done_callback(self._loaded)

    def _loaded(self, task: asyncio.Task[None]) -> None:
        self._loading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("committed offsets cannot be read", exc_info=error)

    async def sweep_strays(self, delete: bool) -> None:
        """At a start: logs that belong to no topic. A topic may have been deleted while this broker
        was down; where the picture comes from elsewhere it may also be the picture that is wrong,
        so there the files stay and are told."""
        for topic, index in self._manager:
            if topic in self._partitions.image.topics:
                continue
            if delete:
                await asyncio.to_thread(self._manager.delete, topic, index)
            log.warning(
                "stray log %s partition=%s-%d: the cluster has no such topic",
                "deleted" if delete else "left alone",
                topic,
                index,
            )

    async def _delete_logs(self, gone: set[UUID]) -> None:
        """By topic id, led or not: while a topic's nodes go one by one, a picture taken in between
        has the topic without its leaders."""
        for topic, index in self._manager:
            if self._manager.topic_id(topic, index) not in gone:
                continue
            try:
                await asyncio.to_thread(self._manager.delete, topic, index)
            except KafkaError as error:
                log.error("log not deleted partition=%s-%d: %s", topic, index, error)

    def _tell(self, before: MetadataImage, image: MetadataImage) -> None:
        """One line for every topic that came or went; the offsets committed on those that went
        are forgotten."""
        ids = {topic.topic_id for topic in image.topics.values()}
        for topic in before.topics.values():
            if topic.topic_id in ids:
                continue
            log.info("topic deleted name=%s id=%s", topic.name, topic.topic_id)
            try:
                self._offsets.forget_topic(topic.name, self._now_ms())
            except KafkaError as error:
                log.error("offsets of the deleted topic %s stay: %s", topic.name, error)
        for topic in image.topics.values():
            if topic.topic_id not in before.names_by_id:
                log.info(
                    "topic %s name=%s id=%s partitions=%d configs=%s",
                    "created" if self._told else "found",
                    topic.name,
                    topic.topic_id,
                    len(topic.partitions),
                    dict(topic.configs),
                )
        self._told = True
