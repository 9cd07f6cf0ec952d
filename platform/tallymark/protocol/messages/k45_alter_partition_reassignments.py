"""AlterPartitionReassignments (key 45): move partitions to other brokers (KIP-455).

It has one version here, which is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class AlterPartitionReassignmentsResponsePartition(Struct):
    """What became of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why it does not move.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class AlterPartitionReassignmentsResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[AlterPartitionReassignmentsResponsePartition] = f(
        Array(AlterPartitionReassignmentsResponsePartition), about="One for each partition."
    )


@wire
class AlterPartitionReassignmentsResponse(Message):
    """Which moves have begun or were cancelled; they are completed later."""

    api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing was done.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    responses: Sequence[AlterPartitionReassignmentsResponseTopic] = f(
        Array(AlterPartitionReassignmentsResponseTopic), about="One for each topic."
    )


@wire
class AlterPartitionReassignmentsRequestPartition(Struct):
    """Where one partition should be."""

    partition_index: int = f(Int32, about="Number of the partition.")
    replicas: Sequence[int] | None = f(
        Array(Int32),
        nullable_since=0,
        default=None,
        about="Its replicas, the preferred leader first; null: cancel the move under way.",
    )


@wire
class AlterPartitionReassignmentsRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[AlterPartitionReassignmentsRequestPartition] = f(
        Array(AlterPartitionReassignmentsRequestPartition), about="The partitions."
    )


@wire
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Move partitions, or cancel moves."""

    api_key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    valid_versions = (0, 0)
    flexible_from = 0

    timeout_ms: int = f(Int32, default=60_000, about="How long the answer may take.")
    topics: Sequence[AlterPartitionReassignmentsRequestTopic] = f(
        Array(AlterPartitionReassignmentsRequestTopic), about="The topics."
    )
