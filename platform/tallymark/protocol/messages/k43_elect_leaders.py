"""ElectLeaders (key 43): partitions get a leader from their replicas (KIP-183, KIP-460).

* v1 adds the type of election, and a top-level error
* v2 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int8,
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
class ElectLeadersResponsePartition(Struct):
    """What became of one partition."""

    partition_id: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why there was no election.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class ElectLeadersResponseTopic(Struct):
    """The partitions of one topic."""

    topic: str = f(String, about="Name of the topic.")
    partition_result: Sequence[ElectLeadersResponsePartition] = f(
        Array(ElectLeadersResponsePartition), about="One for each partition."
    )


@wire
class ElectLeadersResponse(Message):
    """What became of the partitions."""

    api_key = ApiKey.ELECT_LEADERS
    valid_versions = (0, 2)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, since=1, about="0, or why nothing was done.")
    replica_election_results: Sequence[ElectLeadersResponseTopic] = f(
        Array(ElectLeadersResponseTopic), about="One for each topic."
    )


@wire
class ElectLeadersRequestTopic(Struct):
    """Partitions of one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Elect leaders."""

    api_key = ApiKey.ELECT_LEADERS
    valid_versions = (0, 2)
    flexible_from = 2

    election_type: int = f(Int8, since=1, about="0: the preferred replica, 1: an unclean one, too.")
    topic_partitions: Sequence[ElectLeadersRequestTopic] | None = f(
        Array(ElectLeadersRequestTopic),
        nullable_since=0,
        about="The partitions, null: all of the cluster.",
    )
    timeout_ms: int = f(Int32, default=60_000, about="How long the elections may take.")
