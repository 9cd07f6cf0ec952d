"""What the cluster looks like: an immutable picture of brokers, topics and leaders.

Handlers read one picture per request; a change makes a new picture. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final
from uuid import UUID

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A live broker and where clients reach it."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """``leader`` is -1 while there is none; the epoch counts its changes."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; ``partitions[i]`` is partition i. The id is another one after a re-creation."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_internal(self) -> bool:
        """Whether clients should be told that it is the brokers' own."""
        return self.name == "__consumer_offsets"


@dataclass(frozen=True)
class MetadataImage:
    """The picture. ``controller_id`` is -1 while there is none."""

    cluster_id: str
    controller_id: int = NO_LEADER
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict[int, BrokerImage])
    topics: Mapping[str, TopicImage] = field(default_factory=dict[str, TopicImage])

    @cached_property
    def names_by_id(self) -> Mapping[UUID, str]:
        """Topic id -> name."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    def leader_of(self, partition: PartitionImage) -> int:
        """The leader if it is alive, else -1."""
        return partition.leader if partition.leader in self.brokers else NO_LEADER

    def led_by(self, node_id: int) -> Iterable[tuple[TopicImage, int, PartitionImage]]:
        """The partitions whose leader is ``node_id``, alive or not."""
        for topic in self.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == node_id:
                    yield topic, index, partition

    def with_topic(self, topic: TopicImage) -> MetadataImage:
        """The picture with one topic added or changed."""
        return replace(self, topics={**self.topics, topic.name: topic})

    def without_topic(self, name: str) -> MetadataImage:
        """The picture without one topic."""
        return replace(self, topics={k: v for k, v in self.topics.items() if k != name})
