"""The interface to the stored state of the cluster: in ZooKeeper, or on this broker's own disk.

The broker requests changes here (create, grow, configure, delete, lead) and gets the result as a
new :class:`~tallymark.broker.metadata.image.MetadataImage`; it then makes its logs match the image.
Two implementations: :mod:`~tallymark.broker.metadata.local_cluster` and
:mod:`~tallymark.broker.metadata.zookeeper_cluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.coordination.replicas.starting import LocalReplicas
from tallymark.coordination.replicas.writing import Fate
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.balance import BALANCING, Balancing
from tallymark.replication.election import Kind, Tails
from tallymark.replication.model import (
    DEFAULTS,
    ChangeState,
    PartitionState,
    PartitionView,
    TopicSettings,
)

OnChange = Callable[[MetadataImage], Awaitable[None]]
"""Called with every new image, one call at a time; returns when the broker has applied it."""


Targets: TypeAlias = Mapping[TopicPartition, Sequence[int] | None]
"""Where partitions should move, the preferred leader first; None: cancel the move under way."""


@dataclass(frozen=True, slots=True)
class LeadershipClaim:
    """A partition that this broker must lead, and whose log it has opened.

    ``told`` is the leader epoch in the image. ``log_epoch`` is the highest epoch that the log ever
    had, -1 before the first; an epoch that a crash has truncated counts, too, or a reader could not
    detect the truncation. ``intact``: the log still has every record that was read from it (it was
    closed cleanly, or the partition is new).
    """

    topic: str
    index: int
    told: int
    log_epoch: int
    intact: bool


@dataclass(frozen=True, slots=True)
class StateOutcome:
    """What became of a change of a partition's state.

    ``fate``: done, refused (the node stays as it was, and this change is never written), or
    unknown: it may still be written; read the state before the next decision. ``state`` is what the
    node holds now, None where that is not known. ``stale`` are brokers that were to join, but have
    registered again: broker -> the broker epoch that is over. ``why`` is a clause for logs.
    """

    change: ChangeState
    fate: Fate
    state: PartitionState | None
    stale: Mapping[int, int] = field(default_factory=dict[int, int])
    why: str = ""


class StateWriter(Protocol):
    """The state nodes of partitions with several replicas, for their leaders."""

    async def write_states(self, changes: Sequence[ChangeState]) -> Sequence[StateOutcome]:
        """Write each state where its node still is of the version ``expected``, and those who join
        are registered as they were; others are told of ISRs at most once a second. One outcome for
        each change, in their order. Never raises."""
        ...

    async def read_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState]:
        """The states now; without those that are gone, or cannot be read at present. A state that
        is in the result was read after the call. Never raises."""
        ...


class Asker(Protocol):
    """What the controller asks other brokers. Methods never raise."""

    async def tails(
        self,
        views: Mapping[TopicPartition, PartitionView],
        asked: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        """Where the logs of these brokers end: partition -> broker -> tail. A broker that does not
        answer soon, or does not follow the leader epoch of the view yet, is left out."""
        ...

    async def is_refused(self, broker: int) -> bool:
        """Whether no process listens at the broker's address right now."""
        ...


class Silence:
    """The :class:`Asker` of a broker that cannot ask: no broker answers, and none is refused."""

    async def tails(
        self,
        views: Mapping[TopicPartition, PartitionView],
        asked: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        return {key: {} for key in asked}

    async def is_refused(self, broker: int) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Membership:
    """What a broker with replicated partitions has to do with its registration.

    ``logs`` says what the broker may go on claiming. ``registered`` is called on the loop with the
    broker epoch of each registration: fetches carry it, and what the image says of this broker
    counts once it has this epoch. ``presumed_dead`` is called on the loop when other brokers may
    take this one for dead: the session was lost, or ZooKeeper was out of reach for as long as a
    session lasts. Leads of replicated partitions end then, until ``registered`` is called again, in
    the same epoch where the session has lived on. ``asker`` asks other brokers while this one is
    the controller, ``defaults`` are the settings for topics without their own, ``balancing`` says
    when leads go back to preferred leaders. ``unclean`` is called on the loop with each partition
    that has got a leader from this broker which may lack records.
    """

    logs: LocalReplicas
    registered: Callable[[int], None] = lambda epoch: None
    presumed_dead: Callable[[], None] = lambda: None
    asker: Asker = field(default_factory=Silence)
    defaults: Callable[[], TopicSettings] = lambda: DEFAULTS
    balancing: Balancing = BALANCING
    unclean: Callable[[TopicPartition], None] = lambda partition: None


class Cluster(StateWriter, Protocol):
    """Decides and stores topics, leaders and producer ids. Methods raise KafkaError."""

    async def cluster_id(self) -> str:
        """The cluster's id, made at its first start. Called before :meth:`join`."""
        ...

    async def join(
        self, me: BrokerImage, on_change: OnChange, membership: Membership | None = None
    ) -> None:
        """Register this broker; returns when ``on_change`` has had the first image. Without a
        ``membership`` it claims nothing of partitions with several replicas."""
        ...

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
        factor: int = 1,
    ) -> None:
        """Create a topic with ``factor`` replicas of each partition, or with those of
        ``assignment``; returns when this broker's image has it with its leaders.

        Raises TOPIC_ALREADY_EXISTS, or what :mod:`~tallymark.broker.metadata.assignment` raises.
        """
        ...

    async def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Add partitions to a topic until it has ``count``; ``assignment`` has the replicas of the
        new ones, in order. Returns when this broker's image has them.

        Raises UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS unless ``count`` is more than the
        present number; INVALID_REPLICA_ASSIGNMENT where the assignment has another number of
        partitions; the errors of :mod:`~tallymark.broker.metadata.assignment`.
        """
        ...

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace all configs of a topic; the caller has checked them. Returns when this broker's
        logs use them. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def delete_topics(self, names: Sequence[str]) -> Mapping[str, KafkaError]:
        """Delete topics, all with one change of the image; returns when this broker's image no
        longer has them. The result has the topics that were not deleted, with their errors:
        UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def reassign(self, targets: Targets) -> Mapping[TopicPartition, KafkaError]:
        """Begin to move partitions to these brokers, the preferred leader first (None: cancel the
        move that is under way); returns when this broker's image has that. The result has those
        that do not move, with their errors:
        :func:`tallymark.replication.reassignment.start` and ``cancel``; REQUEST_TIMED_OUT where
        that is not known."""
        ...

    async def deleted_here(self) -> Set[UUID]:
        """Ids of topics that are known to be deleted, and of which this broker may still have
        partitions on its disks."""
        ...

    async def forget_deleted(self, topic_ids: Set[UUID]) -> None:
        """This broker no longer has partitions of these topics. Never raises: if it fails,
        :meth:`deleted_here` returns them again."""
        ...

    async def lead(self, claims: Sequence[LeadershipClaim]) -> Sequence[int | KafkaError]:
        """Become the leader of partitions; returns the leader epoch of each, or its error.
        :func:`~tallymark.broker.metadata.leader_epoch.next_epoch` decides when an epoch rises."""
        ...

    async def elect_leaders(
        self, kind: Kind, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, KafkaError]:
        """Elect leaders of partitions with several replicas; returns those that got none, with the
        errors of KIP-460, when this broker's image has the others. Raises
        COORDINATOR_NOT_AVAILABLE without ZooKeeper."""
        ...

    async def next_producer_id(self) -> int:
        """A producer id that no other producer has or will get."""
        ...

    async def update_features(self, levels: Mapping[str, int], validate_only: bool) -> None:
        """Raise features to these levels, all or none; returns when this broker's image has them.
        ``validate_only``: only find out whether it could be done.

        Raises INVALID_UPDATE_VERSION (:func:`tallymark.replication.features.raised`);
        FEATURE_UPDATE_FAILED where nothing can be decided now.
        """
        ...

    async def announce_leaving(self) -> bool:
        """This broker wants to stop: the controller should give its leads to others. It goes on to
        serve. Whether that is known to others now; what was said ends with the session. Never
        raises."""
        ...

    async def report_suspect(self, broker: int, epoch: int) -> None:
        """The process of a broker, registered under ``epoch``, seems to be gone: the controller
        looks for itself, and elects other leaders. Never raises."""
        ...

    async def retire(self) -> None:
        """Unregister, so that the other brokers report it to clients at once; this broker may
        still serve for a moment. Never raises, takes a few seconds at most."""
        ...

    async def leave(self) -> None:
        """Unregister and end. Never raises."""
        ...
