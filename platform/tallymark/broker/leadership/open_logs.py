"""Opens the logs of partitions that this broker must lead. All of it blocks. One thread opens many
logs: to start a thread's task for each of ten thousand would take longer than the work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.metadata.port import LeadershipClaim
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.topic_configs import log_config, understood
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.log.disk.partition_folder import KEPT, LogKey

log = logging.getLogger(__name__)

_FLUSHERS: Final = 8
"""Threads that store new epochs: each takes two fsyncs, and a file system does many at once."""


@dataclass(frozen=True, slots=True)
class PartitionToOpen:
    """A partition to open; ``is_new``: it appeared in the topic with this image."""

    topic: TopicImage
    index: int
    is_new: bool

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened log, and the claim with which this broker becomes its leader."""

    wanted: PartitionToOpen
    log: Log
    claim: LeadershipClaim


@dataclass(frozen=True, slots=True)
class Failed:
    """A partition that cannot be led; ``error`` has not been logged yet."""

    wanted: PartitionToOpen
    error: TallymarkError


class LogOpener:
    """Opens, configures, starts epochs and deletes. One call at a time."""

    def __init__(
        self,
        settings: BrokerSettings,
        manager: LogManager,
        now_ms: Callable[[], int],
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self.settings = settings
        """The current settings."""
        self.deleted: Set[UUID] | None = None
        """Topics that are known to be deleted; None: all that the cluster does not have."""
        self._manager = manager
        self._now_ms = now_ms
        self._threads = threads

    def open(self, wanted: Sequence[PartitionToOpen]) -> tuple[list[Opened], list[Failed]]:
        """The logs of the partitions; creates those that do not exist."""
        opened: list[Opened] = []
        failed: list[Failed] = []
        topics = {each.topic.name: each.topic for each in wanted}
        configs = {name: self.config_of(topic) for name, topic in topics.items()}
        for each in wanted:
            try:
                opened.append(self._open(each, configs[each.topic.name]))
            except TallymarkError as error:
                failed.append(Failed(each, error))
        return opened, failed

    def start_epochs(
        self, started: Sequence[tuple[Opened, int]]
    ) -> list[tuple[Opened, int] | Failed]:
        """Set each log's leader epoch, durably; costs nothing where it is set already."""
        new = [each for each in started if each[1] != each[0].claim.log_epoch]
        rest = [each for each in started if each[1] == each[0].claim.log_epoch]
        outcomes = [_start_epoch(each) for each in rest]
        if len(new) <= 1:
            return outcomes + [_start_epoch(each) for each in new]
        with self._threads(min(_FLUSHERS, len(new)), "tallymark-epochs") as pool:
            return outcomes + list(pool.map(_start_epoch, new))

    def config_of(self, topic: TopicImage) -> LogConfig:
        """The configuration of the topic's logs. Another kind of broker may have written the stored
        configs: an unknown value must not make the partition unavailable."""
        known = understood(topic.configs)
        if len(known) != len(topic.configs):
            strange = sorted(set(topic.configs) - set(known))
            log.warning("topic configs ignored name=%s: %s", topic.name, strange)
        return log_config(self.settings, known)

    def delete(self, partitions: Iterable[LogKey], stray_since_ms: int | None = None) -> bool:
        """Delete logs, or set them aside as :meth:`tallymark.log.LogManager.delete_all` says; those
        that cannot be deleted now are deleted at a later start. Returns whether all of them are
        deleted."""
        failed = self._manager.delete_all(partitions, stray_since_ms)
        for key, error in failed.items():
            log.error("log not deleted partition=%s: %s", key, error)
        return not failed

    def _open(self, wanted: PartitionToOpen, config: LogConfig) -> Opened:
        topic, index = wanted.topic, wanted.index
        there = self._manager.topic_id(topic.name, index)
        if there is not None and there != topic.topic_id:
            self._make_room(LogKey(topic.name, index), there)
        had_one = self._manager.get(topic.name, index) is not None
        if not had_one and not wanted.is_new and self._manager.offline_dirs:
            # A new, empty log on a working disk would hide the one on the disk that does not work.
            raise KafkaError(
                CODES["KAFKA_STORAGE_ERROR"], f"{wanted}: its log may be on a disk that is offline"
            )
        opened = self._manager.create(topic.name, index, topic.topic_id, self._now_ms())
        opened.config = config
        if not config.flush_before_expose:
            self._manager.flushed_first.revoke([LogKey(topic.name, index)])
        # If a partition is not new and its log is missing, records that were read are lost.
        intact = opened.recovered is None and (had_one or wanted.is_new)
        told = topic.partitions[index].leader_epoch
        claim = LeadershipClaim(topic.name, index, told, opened.next_epoch - 1, intact)
        return Opened(wanted, opened, claim)

    def _make_room(self, key: LogKey, topic_id: UUID) -> None:
        """A log of another topic has the name. It goes where that topic was deleted. Where
        ZooKeeper has lost it, as when its data are of an older copy, the log may have the only
        records of it: to create a topic of its name must not delete them."""
        if self.deleted is None or topic_id in self.deleted:
            log.warning(
                "log deleted partition=%s: it is of the topic id %s, which was deleted",
                key,
                topic_id,
            )
            self._manager.delete(*key)
            return
        for error in self._manager.delete_all([key], keep=True).values():
            raise error
        log.error(
            "log set aside partition=%s as %s.<...>%s: it is of the topic id %s, which is gone from"
            " the cluster and was not deleted; ZooKeeper has lost it, or another program removed"
            " it. Its records stay there until you remove the folder",
            key,
            key,
            KEPT,
            topic_id,
        )


def _start_epoch(started: tuple[Opened, int]) -> tuple[Opened, int] | Failed:
    opened, epoch = started
    try:
        opened.log.start_epoch(epoch)
    except TallymarkError as error:
        return Failed(opened.wanted, error)
    return started
