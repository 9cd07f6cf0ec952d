"""The partitions of this broker by name, and the errors for all others.

A partition is *led* here, or only *held*: another broker leads it, or none does, and this one has a
replica. Whatever keeps logs (flushes, retention, compaction, checkpoints) goes over all of them;
clients reach those that are led.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, KafkaError


class Partitions:
    """The partitions of this broker, by (topic, index). ``image`` is the current image. Iterating
    goes over all, :meth:`led` over those that are led here."""

    def __init__(self) -> None:
        self.image = MetadataImage("")
        self._all: dict[tuple[str, int], Partition] = {}
        self._led: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], str] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def led(self) -> Iterator[Partition]:
        """The partitions that this broker leads."""
        return iter(tuple(self._led.values()))

    def held(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker has a replica of it, led or not, else None."""
        return self._all.get((topic, index))

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker leads it, else None."""
        return self._led.get((topic, index))

    def find(self, topic: str, index: int) -> Partition:
        """The partition, or KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        KAFKA_STORAGE_ERROR."""
        found = self._led.get((topic, index))
        if found is not None:
            return found
        where = f"{topic}-{index}"
        if (topic, index) in self._offline:
            raise KafkaError(
                CODES["KAFKA_STORAGE_ERROR"], f"{where}: {self._offline[topic, index]}"
            )
        known = self.image.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], where)
        raise KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], where)

    def name_of(self, topic_id: UUID) -> str:
        """The topic's name, or KafkaError UNKNOWN_TOPIC_ID."""
        try:
            return self.image.names_by_id[topic_id]
        except KeyError:
            raise KafkaError(CODES["UNKNOWN_TOPIC_ID"], str(topic_id)) from None

    def epoch_of(self, topic: str, index: int, told: int) -> int:
        """The leader epoch: the partition's own where this broker leads it, else ``told``, that of
        the image."""
        led = self._led.get((topic, index))
        return told if led is None else led.leader_epoch

    def add(self, partition: Partition) -> None:
        """This broker leads the partition from now on."""
        key = (partition.topic, partition.index)
        self._offline.pop(key, None)
        self._all[key] = self._led[key] = partition

    def hold(self, partition: Partition) -> None:
        """This broker has a replica of the partition, and does not lead it."""
        key = (partition.topic, partition.index)
        self._offline.pop(key, None)
        self._led.pop(key, None)
        self._all[key] = partition

    def remove(self, partition: Partition, *, deleted: bool = False) -> None:
        """This broker no longer leads or holds the partition; ``deleted``: no broker does. Requests
        that wait for it are answered."""
        key = (partition.topic, partition.index)
        if self._all.get(key) is partition:
            del self._all[key]
            self._led.pop(key, None)
        partition.withdraw(deleted=deleted)

    def set_offline(self, topic: str, index: int, why: str) -> None:
        """Note that this broker should have the partition, but its disk has failed."""
        self._offline[topic, index] = why

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker should have the partition, but its disk has failed. Metadata then
        reports no leader where it is this broker, and requests for the partition get
        KAFKA_STORAGE_ERROR."""
        held = self._all.get((topic, index))
        return held.log.is_offline if held is not None else (topic, index) in self._offline

    def offline(self) -> list[tuple[str, int]]:
        """The partitions that this broker should have but cannot open."""
        return list(self._offline)

    def forget_offline(self, topics: MetadataImage) -> None:
        """Drop the offline partitions of deleted topics."""
        for topic, index in list(self._offline):
            if topic not in topics.topics:
                del self._offline[topic, index]
