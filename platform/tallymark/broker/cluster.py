"""The port behind which the cluster's truth is kept: ZooKeeper, or this broker's own disk.

The broker asks here for changes (create, delete, lead) and is told the outcome as a new
:class:`~tallymark.broker.image.MetadataImage`; it then makes its logs fit the picture. Two
implementations: :mod:`~tallymark.broker.local_cluster` and
:mod:`~tallymark.broker.zookeeper_cluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tallymark.broker.image import BrokerImage, MetadataImage

OnChange = Callable[[MetadataImage], Awaitable[None]]
"""Called with every new picture, one call at a time; has returned when the broker acts by it."""


class Cluster(Protocol):
    """Where topics, leaders and producer ids are decided and kept. Methods raise KafkaError."""

    async def cluster_id(self) -> str:
        """The cluster's identity, made at its first start. Comes before :meth:`join`."""
        ...

    async def join(self, me: BrokerImage, on_change: OnChange) -> None:
        """Register this broker; returns when ``on_change`` has had the first picture."""
        ...

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Create a topic; returns when this broker's picture has it with its leaders.

        Raises TOPIC_ALREADY_EXISTS, or what :mod:`~tallymark.broker.assignment` raises.
        """
        ...

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when this broker's picture has it no more.

        Raises UNKNOWN_TOPIC_OR_PARTITION.
        """
        ...

    async def lead(self, topic: str, index: int, log_epoch: int) -> int:
        """Become the leader of a partition: the new leader epoch, above every one before.

        ``log_epoch`` is the highest epoch the partition's log was ever in, -1 before the first; one
        that a crash has cut off counts too, or a reader could not tell the cut.
        """
        ...

    async def next_producer_id(self) -> int:
        """A producer id that no one else has or will get."""
        ...

    async def leave(self) -> None:
        """Unregister. Never raises."""
        ...
