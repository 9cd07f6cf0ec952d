"""OffsetForLeaderEpoch (key 23): where an epoch ends in the leader's log (KIP-101, KIP-320).

A reader whose last record has epoch e asks for e; an end below its position says that the log
was cut and holds other records there now.

* v3 adds the replica id, v4 is flexible
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
class OffsetForLeaderEpochResponsePartition(Struct):
    """Where the epoch ends in one partition."""

    error_code: int = f(Int16, about="0, or why there is no offset.")
    partition: int = f(Int32, about="Number of the partition.")
    leader_epoch: int = f(
        Int32, since=1, default=-1, about="Largest epoch not above the asked one, or -1."
    )
    end_offset: int = f(Int64, default=-1, about="Where that epoch ends, or -1.")


@wire
class OffsetForLeaderEpochResponseTopic(Struct):
    """Where the epochs end in one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[OffsetForLeaderEpochResponsePartition] = f(
        Array(OffsetForLeaderEpochResponsePartition), about="One for each partition."
    )


@wire
class OffsetForLeaderEpochResponse(Message):
    """Where the epochs end."""

    api_key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    valid_versions = (2, 4)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, since=2, about="How long a quota held the request back.")
    topics: Sequence[OffsetForLeaderEpochResponseTopic] = f(
        Array(OffsetForLeaderEpochResponseTopic), about="One for each topic of the request."
    )


@wire
class OffsetForLeaderEpochRequestPartition(Struct):
    """The epoch to look up in one partition."""

    partition: int = f(Int32, about="Number of the partition.")
    current_leader_epoch: int = f(
        Int32, since=2, default=-1, about="Leader epoch the asker knows; fences stale ones."
    )
    leader_epoch: int = f(Int32, about="The epoch to look up.")


@wire
class OffsetForLeaderEpochRequestTopic(Struct):
    """The epochs to look up in one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[OffsetForLeaderEpochRequestPartition] = f(
        Array(OffsetForLeaderEpochRequestPartition), about="One for each partition."
    )


@wire
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """Look up where epochs end."""

    api_key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    valid_versions = (2, 4)
    flexible_from = 4

    replica_id: int = f(
        Int32, since=3, default=-2, about="Broker id of a follower, -1 for a consumer."
    )
    topics: Sequence[OffsetForLeaderEpochRequestTopic] = f(
        Array(OffsetForLeaderEpochRequestTopic), about="What to look up."
    )
