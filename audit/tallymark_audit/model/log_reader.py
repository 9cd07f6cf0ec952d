"""What the collector asks of a cluster. :class:`tallymark.client.SimpleConsumer` is one; tests have
another in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tallymark.client.reading.isolation import Isolation
from tallymark.errors import KafkaError
from tallymark.protocol.records.batch import Batch


class TopicLike(Protocol):
    """A topic as the metadata describes it."""

    @property
    def topic_id(self) -> Any: ...
    @property
    def partitions(self) -> Any: ...


class FetchedLike(Protocol):
    """What one fetch of one partition gave."""

    @property
    def high_watermark(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def batches(self) -> Sequence[Batch]: ...
    @property
    def left_out(self) -> Sequence[Batch]: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...


class LogReader(Protocol):
    """The part of SimpleConsumer that is used. Everything may raise TallymarkError."""

    def topics(self) -> Mapping[str, TopicLike]: ...

    def topics_named(self, names: Any) -> Mapping[str, TopicLike | KafkaError]: ...

    def multifetch(
        self,
        specs: Any,
        *,
        max_bytes: int = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        isolation: Isolation | None = ...,
    ) -> Sequence[FetchedLike | KafkaError]: ...

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_offsets: int = ...
    ) -> Sequence[int]: ...

    def close(self) -> None: ...


def topic_id_of(topic: TopicLike) -> str:
    """The id as hex, ``""`` where the cluster has none."""
    found = getattr(topic.topic_id, "hex", "")
    return "" if not found or set(found) == {"0"} else str(found)


def partitions_of(topic: TopicLike) -> list[int]:
    """The partition numbers."""
    partitions = topic.partitions
    if isinstance(partitions, int):
        return list(range(partitions))
    return sorted(
        partition if isinstance(partition, int) else partition.id for partition in partitions
    )
