"""The port behind which the cluster's truth is kept: ZooKeeper, or this broker's own disk.

The broker asks here for changes (create, grow, configure, delete, lead) and gets the result as
a new :class:`~tallymark.broker.metadata.image.MetadataImage`; it then makes its logs fit the
image. Two implementations: :mod:`~tallymark.broker.metadata.local_cluster` and
:mod:`~tallymark.broker.metadata.zookeeper_cluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.errors import KafkaError

OnChange = Callable[[MetadataImage], Awaitable[None]]
"""Called with every new image, one call at a time; has returned when the broker acts by it."""


@dataclass(frozen=True, slots=True)
class LeadershipClaim:
    """A partition that this broker is to lead and has opened.

    ``told`` is the leader epoch of the image that said so. ``log_epoch`` is the highest epoch
    that the log was ever in, -1 before the first; one that a crash has cut off counts too, or a
    reader could not notice the cut. ``intact``: the log holds all that was ever read from it (it
    was closed cleanly, or the partition is new).
    """

    topic: str
    index: int
    told: int
    log_epoch: int
    intact: bool


class Cluster(Protocol):
    """Where topics, leaders and producer ids are decided and kept. Methods raise KafkaError."""

    async def cluster_id(self) -> str:
        """The cluster's identity, made at its first start. Comes before :meth:`join`."""
        ...

    async def join(self, me: BrokerImage, on_change: OnChange) -> None:
        """Register this broker; returns when ``on_change`` has had the first image."""
        ...

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic; returns when this broker's image has it with its leaders.

        Raises TOPIC_ALREADY_EXISTS, or what :mod:`~tallymark.broker.metadata.assignment` raises.
        """
        ...

    async def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Let a topic have ``count`` partitions; ``assignment`` places the new ones, in order.
        Returns when this broker's image has them.

        Raises UNKNOWN_TOPIC_OR_PARTITION; INVALID_PARTITIONS unless ``count`` is more than there
        are; INVALID_REPLICA_ASSIGNMENT where the assignment is of another number; what
        :mod:`~tallymark.broker.metadata.assignment` raises.
        """
        ...

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace all that a topic has of its own; the caller has checked it. Returns when this
        broker's logs go by it. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def delete_topics(self, names: Sequence[str]) -> Mapping[str, KafkaError]:
        """Delete topics, all with one change of the image; returns when this broker's has them no
        more. Those that were not deleted come back with the reason: UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    async def deleted_here(self) -> Set[UUID]:
        """Ids of topics that are known to be deleted, and of which this broker may still have
        partitions on its disks."""
        ...

    async def forget_deleted(self, topic_ids: Set[UUID]) -> None:
        """This broker has no partitions of these any more. Never raises: what fails is returned
        again by :meth:`deleted_here`."""
        ...

    async def lead(self, claims: Sequence[LeadershipClaim]) -> Sequence[int | KafkaError]:
        """Become the leader of partitions: the leader epoch of each, or why not. See
        :func:`~tallymark.broker.metadata.leader_epoch.next_epoch` for when it rises."""
        ...

    async def next_producer_id(self) -> int:
        """A producer id that no one else has or will get."""
        ...

    async def retire(self) -> None:
        """Unregister, so that the other brokers inform clients at once; this broker may serve on
        for a moment. Never raises, takes a few seconds at most."""
        ...

    async def leave(self) -> None:
        """Unregister and end. Never raises."""
        ...
