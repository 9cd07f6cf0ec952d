"""A client's cache of its cluster's metadata: brokers, topics, leaders and their epochs. Pure.

One rule keeps the cache from going back in time: a partition's leader is replaced only by one of
the same or a later epoch, as long as the topic has the same id (KIP-320). Brokers answer metadata
requests from caches of their own, and some of these are older than others.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.net.addresses import Address
from tallymark.protocol.messages import MetadataResponse, MetadataResponseTopic
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.topic_partition import NAME_RULE

NO_LEADER: Final = -1
NO_EPOCH: Final = -1
_GONE: Final = frozenset({CODES["UNKNOWN_TOPIC_OR_PARTITION"], CODES["UNKNOWN_TOPIC_ID"]})


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as users see it. ``partitions`` are the partition numbers, ascending."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[int, ...]

    @property
    def partition_count(self) -> int:
        """How many partitions there are."""
        return len(self.partitions)


def topic_told(answer: MetadataResponseTopic) -> TopicInfo | KafkaError:
    """One topic of a response, without the cache; the broker's error if the response has one."""
    name = answer.name or ""
    if answer.error_code:
        said = f"topic {name}"
        if answer.error_code == CODES["INVALID_TOPIC_EXCEPTION"]:  # such an answer has no words
            said += f" (a name is {NAME_RULE}, and no other topic's but for . and _)"
        return KafkaError(answer.error_code, said)
    numbers = sorted(part.partition_index for part in answer.partitions)
    return TopicInfo(name, answer.topic_id, tuple(numbers))


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition: broker id (-1: none now) and leader epoch (-1: not known)."""

    broker: int
    epoch: int


@dataclass(slots=True)
class _Topic:
    topic_id: uuid.UUID = ZERO_UUID
    error: int = 0
    leaders: dict[int, Leader] = field(default_factory=dict)


class Metadata:
    """The cache. One thread writes it; any thread may read, since the objects it returns never
    change."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller: int = NO_LEADER
        self.brokers: Mapping[int, Address] = {}
        self._topics: dict[str, _Topic] = {}

    @property
    def known(self) -> list[str]:
        """Names of the topics that have been requested or listed, existing or not."""
        return list(self._topics)

    def topic(self, name: str) -> TopicInfo | None:
        """The topic, or None when it is not known to exist."""
        topic = self._topics.get(name)
        if topic is None or not topic.leaders:
            return None
        return TopicInfo(name, topic.topic_id, tuple(sorted(topic.leaders)))

    def topics(self) -> dict[str, TopicInfo]:
        """All topics known to exist, by name."""
        found = (self.topic(name) for name in sorted(self._topics))
        return {info.name: info for info in found if info is not None}

    def topic_id(self, name: str) -> uuid.UUID:
        """The topic's id; the zero UUID when it is not known."""
        topic = self._topics.get(name)
        return topic.topic_id if topic else ZERO_UUID

    def error(self, name: str) -> int:
        """The topic's error code in the last response; 0 for no error, or when the topic was never
        requested."""
        topic = self._topics.get(name)
        return topic.error if topic else 0

    def leader(self, name: str, partition: int) -> Leader | None:
        """The partition's leader; None when the partition is not known to exist."""
        topic = self._topics.get(name)
        return topic.leaders.get(partition) if topic else None

    def update(self, response: MetadataResponse, *, whole: bool = False) -> None:
        """Store a response; ``whole``: it lists every topic of the cluster."""
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller = response.controller_id
        if response.brokers:
            self.brokers = {b.node_id: Address(b.host, b.port) for b in response.brokers}
        listed: set[str] = set()
        for answer in response.topics:
            if answer.name is not None:
                listed.add(answer.name)
                self._take_topic(answer.name, answer)
        if whole:
            self.forget(set(self._topics) - listed)

    def take_leader(
        self, name: str, partition: int, broker: int, epoch: int, address: Address
    ) -> bool:
        """Store the leader of one partition from an error response (KIP-951). Returns whether it
        was new."""
        topic = self._topics.get(name)
        had = topic.leaders.get(partition) if topic else None
        if topic is None or had is None or epoch <= had.epoch:
            return False
        topic.leaders = topic.leaders | {partition: Leader(broker, epoch)}
        if self.brokers.get(broker) != address:
            self.brokers = {**self.brokers, broker: address}
        return True

    def forget(self, names: Iterable[str]) -> None:
        """Drop topics from the cache."""
        for name in names:
            self._topics.pop(name, None)

    def _take_topic(self, name: str, answer: MetadataResponseTopic) -> None:
        old = self._topics.get(name)
        if answer.error_code in _GONE:
            self._topics[name] = _Topic(error=answer.error_code)
            return
        if answer.error_code and not answer.partitions:
            if old is None:
                old = self._topics[name] = _Topic()
            old.error = answer.error_code
            return
        same = old is not None and old.topic_id == answer.topic_id
        leaders: dict[int, Leader] = {}
        for part in answer.partitions:
            new = Leader(part.leader_id, part.leader_epoch)
            had = old.leaders.get(part.partition_index) if old and same else None
            stale = had is not None and NO_EPOCH < new.epoch < had.epoch
            leaders[part.partition_index] = had if had is not None and stale else new
        self._topics[name] = _Topic(answer.topic_id, answer.error_code, leaders)
