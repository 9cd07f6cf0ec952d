"""DescribeProducers (key 61): the idempotent producers that a partition remembers (KIP-664).

It has one version, which is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class DescribeProducersResponseProducer(Struct):
    """One producer."""

    producer_id: int = f(Int64, about="The producer id.")
    producer_epoch: int = f(Int32, about="Its epoch.")
    last_sequence: int = f(Int32, default=-1, about="Sequence of its last record, or -1.")
    last_timestamp: int = f(Int64, default=-1, about="Timestamp of its last record, or -1.")
    coordinator_epoch: int = f(Int32, about="Epoch of the transaction coordinator that wrote last.")
    current_txn_start_offset: int = f(
        Int64, default=-1, about="Where its open transaction begins, or -1."
    )


@wire
class DescribeProducersResponsePartition(Struct):
    """The producers of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why nothing is told.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    active_producers: Sequence[DescribeProducersResponseProducer] = f(
        Array(DescribeProducersResponseProducer), about="The producers."
    )


@wire
class DescribeProducersResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[DescribeProducersResponsePartition] = f(
        Array(DescribeProducersResponsePartition), about="One for each partition."
    )


@wire
class DescribeProducersResponse(Message):
    """The producers."""

    api_key = ApiKey.DESCRIBE_PRODUCERS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    topics: Sequence[DescribeProducersResponseTopic] = f(
        Array(DescribeProducersResponseTopic), about="One for each topic of the request."
    )


@wire
class DescribeProducersRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partition_indexes: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Ask about producers."""

    api_key = ApiKey.DESCRIBE_PRODUCERS
    valid_versions = (0, 0)
    flexible_from = 0

    topics: Sequence[DescribeProducersRequestTopic] = f(
        Array(DescribeProducersRequestTopic), about="The topics."
    )
