"""Followers from which a client reads instead of from leaders (KIP-392).

A leader names one in the client's rack; the client reads there until that fails, or for so long
that the leader is asked again. Only reads go there: offsets and epochs are the leader's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from tallymark.client.core.metadata import Metadata
from tallymark.net.addresses import Address
from tallymark.protocol.messages import FetchResponse
from tallymark.protocol.topic_partition import TopicPartition

_SECONDS: Final = 300.0
"""Kafka's metadata.max.age.ms, after which its consumer asks the leader again."""
_NONE: Final = -1


class _Nearer(NamedTuple):
    broker: int
    until: float


class NearReplicas:
    """Those of one client; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[TopicPartition, _Nearer] = {}

    def address(self, partition: TopicPartition, metadata: Metadata) -> Address | None:
        """Where to read the partition; None: at its leader."""
        known = self._known.get(partition)
        if known is None:
            return None
        address = metadata.brokers.get(known.broker)
        if address is None or self._clock() >= known.until:
            del self._known[partition]
            return None
        return address

    def take(
        self, response: FetchResponse, topics: Callable[[str, UUID], str]
    ) -> set[TopicPartition]:
        """The partitions of an answer that are to be read elsewhere; remembers where.
        ``topics``: the name of a topic in it, from its name or id there."""
        sent: set[TopicPartition] = set()
        for topic in response.responses:
            for part in topic.partitions:
                if part.preferred_read_replica != _NONE:
                    key = topics(topic.topic, topic.topic_id), part.partition_index
                    known = _Nearer(part.preferred_read_replica, self._clock() + _SECONDS)
                    self._known[key] = known
                    sent.add(key)
        return sent

    def forget(self, partition: TopicPartition) -> None:
        """Reading there has failed."""
        self._known.pop(partition, None)
