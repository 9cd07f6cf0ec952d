"""Makes the partitions of this broker match the image of the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from uuid import UUID

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.leadership.open_logs import Failed, LogOpener, Opened, PartitionToOpen
from tallymark.broker.leadership.replica_parts import ReplicaParts
from tallymark.broker.leadership.replicated import Owner, ReplicatedPartitions
from tallymark.broker.leadership.roles import is_replicated
from tallymark.broker.leadership.unneeded_logs import UnneededLogs
from tallymark.broker.metadata.image import MetadataImage, TopicImage
from tallymark.broker.metadata.port import Cluster
from tallymark.broker.metrics.counters import TopicTraffic
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.transactions.shards import TransactionShards
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.log.disk.partition_folder import LogKey
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tallymark.replication.model import TopicSettings

log = logging.getLogger(__name__)


class Leadership:
    """Opens the logs that this broker must lead, deletes those of deleted topics, and makes the
    image the current one.

    :meth:`apply` is called by one caller at a time. It compares topics by object identity with the
    image before, so its cost depends only on what has changed. Threads wait for the disk; the table
    of partitions changes on the loop only. ``preparers`` are those of the partitions.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        cluster: Cluster,
        manager: LogManager,
        partitions: Partitions,
        group_shards: GroupShards,
        now_ms: Callable[[], int],
        flush_wanted: Callable[[Partition], None],
        traffic_of: Callable[[str], TopicTraffic] = lambda _: TopicTraffic(),
        preparers: Executor | None = None,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
        replicas: ReplicaParts | None = None,
        transaction_shards: TransactionShards | None = None,
    ) -> None:
        self._settings = settings
        self._node_id = settings.node_id
        self._cluster = cluster
        self._manager = manager
        self._partitions = partitions
        self._group_shards = group_shards
        self._transaction_shards = transaction_shards or TransactionShards(now_ms)
        self._opener = LogOpener(settings, manager, now_ms, threads)
        self._flush_wanted = flush_wanted
        self._traffic_of = traffic_of
        self._preparers = preparers
        self._loading: set[asyncio.Task[None]] = set()
        self._offline_logged: dict[tuple[str, int], str] = {}
        self._applied_once = False
        self._unneeded = UnneededLogs(
            self._node_id, cluster, manager, partitions, self._opener, now_ms
        )
        self._replicated: ReplicatedPartitions | None = None
        if replicas is not None:
            owner = Owner(self._partition, self._led, self._given_up, self.defaults)
            self._replicated = ReplicatedPartitions(
                self._node_id, replicas, partitions, manager, self._opener, owner
            )

    async def apply(self, image: MetadataImage) -> None:
        """Apply ``image``. Partitions are opened before clients see that we lead them, and clients
        see that they are deleted before their files are deleted."""
        before = self._partitions.image
        changed, missing, gone = _difference(before, image)
        await self._know_deleted(changed)
        self._withdraw([*missing, *changed], image, gone)
        if self._replicated is not None:
            touched = (topic.name for topic in (*missing, *changed))
            self._note_failed(await self._replicated.apply(image, touched))
        await self._open([*self._offline(image), *self._to_open(changed, before)])
        deleted = await self._unneeded.deleted_of(gone) if gone else gone
        self._configure(changed, before)
        self._partitions.image = image
        self._partitions.forget_offline(image)
        if changed or gone:
            # In the same turn: the offsets of a deleted topic must be deleted before the first
            # commit on a new topic of the same name, which would otherwise be deleted with them.
            self._note_topics(before, image, deleted)
        await self._unneeded.of_deleted(deleted)
        await self._unneeded.of_moved(changed)
        self._applied_once = True

    async def _know_deleted(self, topics: Iterable[TopicImage]) -> None:
        """Before logs are opened: where one is of another topic id, was that topic deleted?"""
        if self._settings.enable_zookeeper and any(
            self._manager.topic_id(topic.name, index) not in (None, topic.topic_id)
            for topic in topics
            for index in range(len(topic.partitions))
        ):
            self._opener.deleted = await self._cluster.deleted_here()

    def registered(self, epoch: int) -> None:
        """This broker is registered in the cluster under this broker epoch."""
        if self._replicated is not None:
            self._replicated.registered(epoch)

    def resign(self) -> None:
        """The session in ZooKeeper must be taken for dead: stop leading partitions that another
        broker may lead by now. Those with one replica go on."""
        if self._replicated is not None:
            self._replicated.resign()

    def _withdraw(
        self, topics: Iterable[TopicImage], image: MetadataImage, gone: set[UUID]
    ) -> None:
        """Stop leading partitions of one replica that are deleted, that another broker leads, or
        that get more replicas."""
        known = self._partitions.image.topics
        for name in {topic.name for topic in topics if topic.name in known}:
            after = image.topics.get(name)
            for index in range(len(known[name].partitions)):
                partition = self._partitions.get(name, index)
                if partition is None or partition.is_replicated:
                    continue
                if (
                    after is not None
                    and after.topic_id == partition.topic_id
                    and index < len(after.partitions)
                    and after.partitions[index].leader == self._node_id
                ):
                    if not is_replicated(after.partitions[index]):
                        continue
                    if self._replicated is not None:
                        self._replicated.grows(partition)
                self._partitions.remove(partition, deleted=partition.topic_id in gone)
                self._manager.high_watermarks.note(name, index, partition.high_watermark)
                self._given_up(partition)
                if partition.topic_id in gone:
                    # At once, so that a fetch woken by this gets the error of a deleted topic.
                    self._partitions.image = self._partitions.image.without_topic(name)

    def _to_open(
        self, changed: Iterable[TopicImage], before: MetadataImage
    ) -> Iterable[PartitionToOpen]:
        for topic in changed:
            had = before.topics.get(topic.name)
            same = had is not None and had.topic_id == topic.topic_id
            known = len(had.partitions) if had is not None and same else 0
            for index, partition in enumerate(topic.partitions):
                ours = partition.leader == self._node_id and not is_replicated(partition)
                if ours and self._partitions.get(topic.name, index) is None:
                    yield PartitionToOpen(topic, index, self._applied_once and index >= known)

    def _offline(self, image: MetadataImage) -> Iterable[PartitionToOpen]:
        """Partitions that could not be opened before; they are tried again with every image."""
        for name, index in self._partitions.offline():
            topic = image.topics.get(name)
            if (
                topic is not None
                and index < len(topic.partitions)
                and topic.partitions[index].leader == self._node_id
                and not is_replicated(topic.partitions[index])
            ):
                yield PartitionToOpen(topic, index, False)

    async def stop(self) -> None:
        """Stop loading coordinators and removing files; the remaining files are removed at the next
        start."""
        await self._unneeded.stop()
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)

    async def _open(self, wanted: list[PartitionToOpen]) -> None:
        """Open, become leader, and store the epoch: each step for all partitions at once."""
        wanted = list({(each.topic.name, each.index): each for each in wanted}.values())
        if not wanted:
            return
        began = asyncio.get_running_loop().time()
        opened, failed = await asyncio.to_thread(self._opener.open, wanted)
        epochs = await self._cluster.lead([each.claim for each in opened])
        led: list[tuple[Opened, int]] = []
        for each, epoch in zip(opened, epochs, strict=True):
            if isinstance(epoch, KafkaError):
                failed.append(Failed(each.wanted, epoch))
            else:
                led.append((each, epoch))
        for started in await asyncio.to_thread(self._opener.start_epochs, led):
            if isinstance(started, Failed):
                failed.append(started)
            else:
                self._lead(*started)
        self._note_failed(failed)
        log.log(
            logging.INFO if led else logging.DEBUG,
            "partitions opened count=%d offline=%d seconds=%.2f",
            len(led),
            len(failed),
            asyncio.get_running_loop().time() - began,
        )

    def _note_failed(self, failed: Iterable[Failed]) -> None:
        for failure in failed:
            name, index = failure.wanted.topic.name, failure.wanted.index
            known = self._offline_logged.get((name, index)) == str(failure.error)
            level = logging.DEBUG if known else logging.ERROR  # it fails with every image
            log.log(level, "partition offline partition=%s-%d: %s", name, index, failure.error)
            self._offline_logged[name, index] = str(failure.error)
            leads = failure.wanted.topic.partitions[index].leader == self._node_id
            self._partitions.set_offline(name, index, str(failure.error), led=leads)

    def _lead(self, opened: Opened, epoch: int) -> None:
        if epoch != opened.claim.log_epoch:
            log.log(
                logging.DEBUG if opened.wanted.is_new else logging.INFO,
                "leader epoch started partition=%s epoch=%d offset=%d",
                opened.wanted,
                epoch,
                opened.log.end_offset,
            )
        wanted = opened.wanted
        partition = self._partition(wanted.topic, wanted.index, opened.log, epoch)
        self._partitions.add(partition)
        self._led(partition)

    def _partition(self, topic: TopicImage, index: int, log_: Log, epoch: int) -> Partition:
        return Partition(
            topic.name,
            index,
            topic.topic_id,
            log_,
            epoch,
            self._flush_wanted,
            self._traffic_of(topic.name),
            self._preparers,
        )

    def _led(self, partition: Partition) -> None:
        """This broker leads the partition from now on."""
        if partition.topic == OFFSETS_TOPIC:
            self._load(self._group_shards.take(partition), partition)
        elif partition.topic == TRANSACTIONS_TOPIC:
            self._load(self._transaction_shards.take(partition), partition)

    def _given_up(self, partition: Partition) -> None:
        """It does not lead it any more."""
        if partition.topic == OFFSETS_TOPIC:
            self._group_shards.give_up(partition)
        elif partition.topic == TRANSACTIONS_TOPIC:
            self._transaction_shards.give_up(partition)

    def defaults(self) -> TopicSettings:
        """What holds for topics that do not set it themselves."""
        settings = self._settings
        unclean = settings.unclean_leader_election_enable
        return TopicSettings(settings.min_insync_replicas, unclean)

    def _configure(self, changed: Iterable[TopicImage], before: MetadataImage) -> None:
        """Apply changed configs of topics to their logs at once."""
        for topic in changed:
            had = before.topics.get(topic.name)
            if had is None or had.configs == topic.configs:
                continue
            config = self._opener.config_of(topic)
            held = (self._partitions.held(topic.name, n) for n in range(len(topic.partitions)))
            self._configure_logs([(each, config) for each in held if each is not None])
            log.info("topic configured name=%s configs=%s", topic.name, dict(topic.configs))

    def take_settings(self, settings: BrokerSettings) -> None:
        """Apply changed settings of the broker at once to every log whose topic does not override
        them."""
        self._settings = self._opener.settings = settings
        if self._replicated is not None:
            self._replicated.take_defaults()
        made: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        due: list[tuple[Partition, LogConfig]] = []
        for partition in self._partitions:
            topic = self._partitions.image.topics.get(partition.topic)
            if topic is None:
                continue
            key = tuple(sorted(topic.configs.items()))
            if key not in made:
                made[key] = self._opener.config_of(topic)
            due.append((partition, made[key]))
        self._configure_logs(due)

    def _configure_logs(self, due: Sequence[tuple[Partition, LogConfig]]) -> None:
        """What is flushed later than it is reported from now on is so on the disk before."""
        later = (each for each, config in due if not config.flush_before_expose)
        self._manager.flushed_first.revoke(LogKey(each.topic, each.index) for each in later)
        for partition, config in due:
            partition.configure(config)

    def _load(self, take: Coroutine[None, None, None], partition: Partition) -> None:
        """Replay what a coordinator has stored in the background; until then its clients get a
        retriable error."""
        task = asyncio.create_task(take, name=f"load {partition}")
        self._loading.add(task)
        task.add_done_callback(self._loaded)

    def _loaded(self, task: asyncio.Task[None]) -> None:
        self._loading.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: what is stored cannot be read", task.get_name(), exc_info=error)

    async def sweep_strays(self, delete: bool) -> None:
        """At a start: see :meth:`UnneededLogs.sweep`."""
        await self._unneeded.sweep(self._partitions.image, delete=delete)

    def _note_topics(self, before: MetadataImage, image: MetadataImage, gone: set[UUID]) -> None:
        """Log every created or deleted topic; delete the offsets committed on deleted ones."""
        for topic in before.topics.values():
            if topic.topic_id not in gone:
                continue
            log.info("topic deleted name=%s id=%s", topic.name, topic.topic_id)
            self._group_shards.forget_topic(topic.name)
        for topic in image.topics.values():
            if topic.topic_id not in before.names_by_id:
                log.log(
                    logging.INFO if self._applied_once else logging.DEBUG,
                    "topic created name=%s id=%s partitions=%d configs=%s",
                    topic.name,
                    topic.topic_id,
                    len(topic.partitions),
                    dict(topic.configs),
                )


def _difference(
    before: MetadataImage, image: MetadataImage
) -> tuple[list[TopicImage], list[TopicImage], set[UUID]]:
    """Topics that are new or changed; topics whose names no longer exist; ids that no longer exist
    (those of the latter, and of topics that were created again)."""
    if image.topics is before.topics:
        return [], [], set()
    changed = [t for t in image.topics.values() if before.topics.get(t.name) is not t]
    missing = [t for t in before.topics.values() if t.name not in image.topics]
    return changed, missing, set(before.names_by_id) - set(image.names_by_id)
