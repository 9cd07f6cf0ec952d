"""The partitions that this broker holds, by name, and the errors for all others.

Each is *led* here, or only *held*: another broker leads it, or none does, and this one has a
replica. A change of role or of the leader epoch is another
:class:`~tallymark.broker.partitions.partition.Partition`. What takes care of logs (flushes,
retention, compaction, checkpoints) goes over all of them; clients reach those that are led.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, KafkaError


class _Offline(NamedTuple):
    why: str
    led: bool


class Partitions:
    """The partitions of this broker, by (topic, index). ``image`` is the current image. Iteration
    and ``len`` are over all, :meth:`led` over those that are led here."""

    def __init__(self) -> None:
        self.image = MetadataImage("")
        self._led: dict[tuple[str, int], Partition] = {}
        self._others: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], _Offline] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter((*self._led.values(), *self._others.values()))

    def __len__(self) -> int:
        return len(self._led) + len(self._others)

    def led(self) -> Iterator[Partition]:
        """Those that this broker leads."""
        return iter(tuple(self._led.values()))

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker leads it, else None."""
        return self._led.get((topic, index))

    def held(self, topic: str, index: int) -> Partition | None:
        """The partition if this broker has a replica of it, led or not, else None."""
        key = (topic, index)
        return self._led.get(key) or self._others.get(key)

    def is_held(self, partition: Partition) -> bool:
        """Whether it still is the one of its name: its log may be written to."""
        return self.held(partition.topic, partition.index) is partition

    def find(self, topic: str, index: int) -> Partition:
        """The partition that this broker leads, or KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR. The leader to name beside the error is in
        :func:`~tallymark.broker.partitions.leader_hint.leader_hint`."""
        found = self._led.get((topic, index))
        if found is not None:
            return found
        where = f"{topic}-{index}"
        offline = self._offline.get((topic, index))
        if offline is not None and offline.led:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{where}: {offline.why}")
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
        the image, which belongs to the leader that the image names."""
        led = self._led.get((topic, index))
        return told if led is None else led.leader_epoch

    def add(self, partition: Partition) -> None:
        """This broker leads the partition from now on."""
        self._put(self._led, partition)

    def hold(self, partition: Partition) -> None:
        """This broker has a replica of the partition, and does not lead it."""
        self._put(self._others, partition)

    def _put(self, role: dict[tuple[str, int], Partition], partition: Partition) -> None:
        key = (partition.topic, partition.index)
        for each in (self._led, self._others, self._offline):
            each.pop(key, None)
        role[key] = partition

    def remove(self, partition: Partition, *, deleted: bool = False) -> None:
        """This broker no longer leads or holds the partition in its leader epoch; ``deleted``: no
        broker does. Requests that wait for it are answered. One of the same name that was put in
        its place stays."""
        key = (partition.topic, partition.index)
        for role in (self._led, self._others):
            if role.get(key) is partition:
                del role[key]
        partition.withdraw(deleted=deleted)

    def set_offline(self, topic: str, index: int, why: str, *, led: bool = True) -> None:
        """Note that this broker should lead the partition, or without ``led`` hold it, but its
        disk has failed."""
        self._offline[topic, index] = _Offline(why, led)

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker should lead the partition, but its disk has failed. Metadata then
        reports no leader, and requests for the partition get KAFKA_STORAGE_ERROR."""
        led = self._led.get((topic, index))
        if led is not None:
            return led.log.is_offline
        offline = self._offline.get((topic, index))
        return offline is not None and offline.led

    def offline(self) -> list[tuple[str, int]]:
        """The partitions that this broker should lead or hold but cannot."""
        return list(self._offline)

    def forget_offline(self, topics: MetadataImage) -> None:
        """Drop the offline partitions of deleted topics."""
        for topic, index in list(self._offline):
            if topic not in topics.topics:
                del self._offline[topic, index]
