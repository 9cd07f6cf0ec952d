"""ListPartitionReassignments (key 46): partitions that are on their way to other brokers (KIP-455).

It has one version, which is flexible.
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
class ListPartitionReassignmentsResponsePartition(Struct):
    """One partition that moves."""

    partition_index: int = f(Int32, about="Number of the partition.")
    replicas: Sequence[int] = f(Array(Int32), about="Its replicas now.")
    adding_replicas: Sequence[int] = f(Array(Int32), about="Those that come.")
    removing_replicas: Sequence[int] = f(Array(Int32), about="Those that go.")


@wire
class ListPartitionReassignmentsResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[ListPartitionReassignmentsResponsePartition] = f(
        Array(ListPartitionReassignmentsResponsePartition), about="Those that move."
    )


@wire
class ListPartitionReassignmentsResponse(Message):
    """What moves."""

    api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing is told.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    topics: Sequence[ListPartitionReassignmentsResponseTopic] = f(
        Array(ListPartitionReassignmentsResponseTopic), about="One for each topic that moves."
    )


@wire
class ListPartitionReassignmentsRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partition_indexes: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """Ask what moves."""

    api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    valid_versions = (0, 0)
    flexible_from = 0

    timeout_ms: int = f(Int32, default=60_000, about="How long the answer may take.")
    topics: Sequence[ListPartitionReassignmentsRequestTopic] | None = f(
        Array(ListPartitionReassignmentsRequestTopic),
        nullable_since=0,
        default=None,
        about="The partitions, null: all of the cluster.",
    )
