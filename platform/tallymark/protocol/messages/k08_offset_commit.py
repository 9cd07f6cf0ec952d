"""OffsetCommit (key 8): remember how far a group has read.

* v2 to v4 carry a retention time; v6 adds leader epochs, v7 static membership (KIP-345)
* v8 is flexible, v9 takes member epochs (KIP-848), v10 names topics by id
"""

from __future__ import annotations

import uuid
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
    Uuid,
    f,
    wire,
)


@wire
class OffsetCommitResponsePartition(Struct):
    """Whether one partition's offset was kept."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why the offset was not kept.")


@wire
class OffsetCommitResponseTopic(Struct):
    """Whether one topic's offsets were kept."""

    name: str = f(String, until=9, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=10, about="Id of the topic.")
    partitions: Sequence[OffsetCommitResponsePartition] = f(
        Array(OffsetCommitResponsePartition), about="One for each partition of the request."
    )


@wire
class OffsetCommitResponse(Message):
    """Whether the offsets were kept."""

    api_key = ApiKey.OFFSET_COMMIT
    valid_versions = (2, 10)
    flexible_from = 8

    throttle_time_ms: int = f(Int32, since=3, about="How long a quota held the request back.")
    topics: Sequence[OffsetCommitResponseTopic] = f(
        Array(OffsetCommitResponseTopic), about="One for each topic of the request."
    )


@wire
class OffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    committed_offset: int = f(Int64, about="Next offset to read.")
    committed_leader_epoch: int = f(
        Int32, since=6, default=-1, about="Epoch of the last record read, or -1."
    )
    committed_metadata: str | None = f(
        String, nullable_since=0, about="Free text kept with the offset."
    )


@wire
class OffsetCommitRequestTopic(Struct):
    """The offsets of one topic."""

    name: str = f(String, until=9, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=10, about="Id of the topic.")
    partitions: Sequence[OffsetCommitRequestPartition] = f(
        Array(OffsetCommitRequestPartition), about="One for each partition."
    )


@wire
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Keep these offsets."""

    api_key = ApiKey.OFFSET_COMMIT
    valid_versions = (2, 10)
    flexible_from = 8

    group_id: str = f(String, about="The group.")
    generation_id_or_member_epoch: int = f(
        Int32, since=1, default=-1, about="Generation of the group, -1 outside of one."
    )
    member_id: str = f(String, since=1, about="Id of the member, empty outside of a group.")
    group_instance_id: str | None = f(
        String, since=7, nullable_since=7, default=None, about="Static member's name, or null."
    )
    retention_time_ms: int = f(
        Int64, since=2, until=4, default=-1, about="How long to keep them, -1 as configured."
    )
    topics: Sequence[OffsetCommitRequestTopic] = f(
        Array(OffsetCommitRequestTopic), about="One for each topic."
    )
