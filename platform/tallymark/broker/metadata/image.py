"""The state of the cluster: an immutable image of brokers, topics and leaders.

Handlers read one image for each request; a change makes a new image. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

from tallymark.broker.settings.listeners import Endpoint
from tallymark.protocol.topic_partition import STATE_TOPICS
from tallymark.replication.features import Finalized, Levels, Supported
from tallymark.replication.model import (
    DEFAULTS,
    NO_LEADER,
    UNKNOWN_EPOCH,
    Assignment,
    BrokerView,
    PartitionState,
    PartitionView,
    TopicSettings,
    settings_of,
)


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A live broker and its addresses for clients: advertised endpoints by the listener's name; the
    first one is used where no listener is named. ``rack`` is "" for none. ``epoch`` is the broker
    epoch of its registration, -1 where it has none. ``leaving``: it wants to stop.
    ``features`` are the levels that it supports."""

    node_id: int
    endpoints: Mapping[str, Endpoint]
    rack: str = ""
    epoch: int = UNKNOWN_EPOCH
    leaving: bool = False
    features: Supported = field(default_factory=dict[str, Levels])

    @property
    def view(self) -> BrokerView:
        """The broker as replication sees it."""
        return BrokerView(self.node_id, self.epoch, self.rack, self.leaving)

    def at(self, listener: str = "") -> Endpoint | None:
        """The endpoint of the listener of that name ("": the first one); None where the broker has
        no such listener. A client must get addresses of the listener that it is connected to: the
        others may be out of reach, or need other credentials."""
        return self.endpoints.get(listener or next(iter(self.endpoints), ""))


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The state node of a partition as it was read last, and its replicas. ``leader`` is -1 while
    there is none; the epoch counts its changes."""

    state: PartitionState
    assignment: Assignment

    @classmethod
    def of(
        cls, leader: int, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]
    ) -> PartitionImage:
        """A partition that nothing more is known of."""
        return cls(PartitionState(leader, leader_epoch, isr), Assignment(replicas))

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.assignment.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        return self.state.isr


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; ``partitions[i]`` is partition i. A topic that is created again has a new id."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_internal(self) -> bool:
        """Whether metadata responses mark the topic as internal."""
        return self.name in STATE_TOPICS

    @property
    def factor(self) -> int:
        """How many replicas its partitions have, or will have after a reassignment."""
        return max(1, len(self.partitions[0].assignment.target)) if self.partitions else 1

    def with_states(self, states: Mapping[int, PartitionState]) -> TopicImage:
        """The topic with these states of some partitions."""
        partitions = list(self.partitions)
        for index, state in states.items():
            partitions[index] = replace(partitions[index], state=state)
        return replace(self, partitions=tuple(partitions))

    def view_of(self, partition: int, defaults: TopicSettings = DEFAULTS) -> PartitionView:
        """The partition as replication sees it; ``defaults`` are the broker's settings, for what
        the topic does not set itself."""
        one, settings = self.partitions[partition], settings_of(self.configs, defaults)
        return PartitionView(
            one.assignment, one.state, settings.min_insync, settings.unclean_allowed
        )


@dataclass(frozen=True)
class MetadataImage:
    """The image. ``controller_id`` is -1 while there is none. ``features`` are the levels in
    force. ``suspects`` are registered brokers of which others have reported that they refuse
    connections."""

    cluster_id: str
    controller_id: int = NO_LEADER
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict[int, BrokerImage])
    topics: Mapping[str, TopicImage] = field(default_factory=dict[str, TopicImage])
    features: Finalized = field(default_factory=Finalized)
    suspects: frozenset[int] = frozenset()

    @cached_property
    def names_by_id(self) -> Mapping[UUID, str]:
        """Topic id -> name."""
        return {topic.topic_id: topic.name for topic in self.topics.values()}

    @cached_property
    def ids_by_name(self) -> Mapping[str, UUID]:
        """Topic -> its id."""
        return {topic.name: topic.topic_id for topic in self.topics.values()}

    @cached_property
    def names_for_metrics(self) -> Mapping[str, str]:
        """Topics by their name in many metrics systems, with ``_`` for ``.``; of topics that
        collide there, one."""
        return {name.replace(".", "_"): name for name in self.topics}

    def leader_of(self, partition: PartitionImage) -> int:
        """The leader if it is alive, else -1."""
        return partition.leader if partition.leader in self.brokers else NO_LEADER

    @cached_property
    def broker_ids(self) -> frozenset[int]:
        """The live brokers."""
        return frozenset(self.brokers)

    @cached_property
    def views(self) -> Mapping[int, BrokerView]:
        """The live brokers as replication sees them."""
        return {node_id: broker.view for node_id, broker in self.brokers.items()}

    @property
    def supports(self) -> Mapping[int, Supported]:
        """The levels of features that each live broker supports."""
        return {node_id: broker.features for node_id, broker in self.brokers.items()}

    @property
    def racks(self) -> Mapping[int, str]:
        """The racks of the live brokers that have one."""
        return {node_id: broker.rack for node_id, broker in self.brokers.items() if broker.rack}

    @property
    def unsteady(self) -> frozenset[int]:
        """Live brokers on which nothing new should be placed: they leave, or are suspected."""
        return self.suspects.union(one.node_id for one in self.brokers.values() if one.leaving)

    def load(self) -> Mapping[int, int]:
        """How many partitions each live broker has."""
        counts = dict.fromkeys(self.brokers, 0)
        for topic in self.topics.values():
            for partition in topic.partitions:
                for replica in partition.replicas:
                    if replica in counts:
                        counts[replica] += 1
        return counts

    def led_by(self, node_id: int) -> Iterable[tuple[TopicImage, int, PartitionImage]]:
        """The partitions whose leader is ``node_id``, alive or not."""
        for topic in self.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == node_id:
                    yield topic, index, partition

    def with_topic(self, topic: TopicImage) -> MetadataImage:
        """The image with one topic added or changed."""
        return replace(self, topics={**self.topics, topic.name: topic})

    def without_topic(self, name: str) -> MetadataImage:
        """The image without one topic."""
        return self.without_topics({name})

    def without_topics(self, names: Set[str]) -> MetadataImage:
        """The image without these topics."""
        return replace(self, topics={k: v for k, v in self.topics.items() if k not in names})
