"""DescribeTopicPartitions (key 75): topics and their partitions, page by page (KIP-966).

It has one version, which is flexible.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    Uuid,
    f,
    wire,
)


@wire
class DescribeTopicPartitionsCursor(Struct):
    """Where a page begins."""

    topic_name: str = f(String, about="Name of its first topic.")
    partition_index: int = f(Int32, about="Number of its first partition.")


@wire
class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition."""

    error_code: int = f(Int16, about="0, or what is wrong with it.")
    partition_index: int = f(Int32, about="Number of the partition.")
    leader_id: int = f(Int32, about="Its leader, or -1.")
    leader_epoch: int = f(Int32, default=-1, about="The leader's epoch.")
    replica_nodes: Sequence[int] = f(Array(Int32), about="Brokers that have it.")
    isr_nodes: Sequence[int] = f(Array(Int32), about="Those that are in sync with the leader.")
    eligible_leader_replicas: Sequence[int] | None = f(
        Array(Int32), nullable_since=0, default=None, about="Others that have all its records."
    )
    last_known_elr: Sequence[int] | None = f(
        Array(Int32), nullable_since=0, default=None, about="The last ones known of those."
    )
    offline_replicas: Sequence[int] = f(Array(Int32), about="Replicas that are away.")


@wire
class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic, or a part of its partitions."""

    error_code: int = f(Int16, about="0, or why it is not told.")
    name: str | None = f(String, nullable_since=0, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, about="Id of the topic.")
    is_internal: bool = f(Bool, about="Whether it is the brokers' own.")
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = f(
        Array(DescribeTopicPartitionsResponsePartition), about="Its partitions."
    )
    topic_authorized_operations: int = f(
        Int32, default=-(2**31), about="What the asker may do to it, a bit each."
    )


@wire
class DescribeTopicPartitionsResponse(Message):
    """One page."""

    api_key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = f(
        Array(DescribeTopicPartitionsResponseTopic), about="The topics."
    )
    next_cursor: DescribeTopicPartitionsCursor | None = f(
        DescribeTopicPartitionsCursor,
        nullable_since=0,
        default=None,
        about="Where the next page begins, null: this is the last one.",
    )


@wire
class DescribeTopicPartitionsRequestTopic(Struct):
    """One topic."""

    name: str = f(String, about="Name of the topic.")


@wire
class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """Ask for a page."""

    api_key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    valid_versions = (0, 0)
    flexible_from = 0

    topics: Sequence[DescribeTopicPartitionsRequestTopic] = f(
        Array(DescribeTopicPartitionsRequestTopic), about="The topics; none means all."
    )
    response_partition_limit: int = f(
        Int32, default=2000, about="The most partitions of the answer."
    )
    cursor: DescribeTopicPartitionsCursor | None = f(
        DescribeTopicPartitionsCursor,
        nullable_since=0,
        default=None,
        about="Where the page begins, null: at the first.",
    )
