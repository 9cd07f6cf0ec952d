"""How a broker copies replicas: Kafka's ``replica.fetch.*`` and their defaults.

::

    an answer comes    when there are min.bytes, or after wait.max.ms; socket.timeout.ms is the end
    and has at most    response.max.bytes; of one partition max.bytes
    after a failure    backoff.ms

They are read from :class:`~tallymark.broker.settings.fields.replication.ReplicationFields`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from tallymark.broker.settings.fields.replication import ReplicationFields
from tallymark.protocol.coordinator_partition import java_hash
from tallymark.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """A field ``replica_fetch_max_bytes`` is Kafka's setting ``replica.fetch.max.bytes``."""

    num_replica_fetchers: int = 1
    """Connections to each leader; its partitions are divided among them."""
    replica_fetch_min_bytes: int = 1
    """The leader waits until it has so many bytes to send ..."""
    replica_fetch_wait_max_ms: int = 500
    """... or until so many ms have passed."""
    replica_fetch_max_bytes: int = 1024 * 1024
    """Bytes of one partition in an answer; a first batch that is larger comes whole (KIP-74)."""
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    """Bytes of an answer."""
    replica_fetch_backoff_ms: int = 1000
    """The pause after a failure of a connection, and the first one of a partition's."""
    replica_socket_timeout_ms: int = 30_000
    """After so long without an answer a connection is closed."""

    @classmethod
    def of(cls, settings: ReplicationFields) -> Self:
        """Those of a broker."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})


def slot_of(partition: TopicPartition, settings: FetchSettings) -> int:
    """Which of the connections to its leader a partition uses, as Apache Kafka counts them."""
    topic, index = partition
    return ((31 * java_hash(topic) + index) & 0x7FFFFFFF) % settings.num_replica_fetchers
