"""OffsetFetch (key 9): how far a group has read.

* v2 asks for all topics with null and adds a top-level error; v5 adds leader epochs
* v6 is flexible, v7 may refuse offsets of open transactions (KIP-447)
* v8 asks for many groups at once, v9 adds member epochs (KIP-848), v10 names topics by id
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
class OffsetFetchResponsePartition(Struct):
    """The offset of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    committed_offset: int = f(Int64, about="Next offset to read, -1 when none is kept.")
    committed_leader_epoch: int = f(
        Int32, since=5, default=-1, about="Epoch of the last record read, or -1."
    )
    metadata: str | None = f(String, nullable_since=0, about="Free text kept with the offset.")
    error_code: int = f(Int16, about="0, or why there is no offset.")


@wire
class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic."""

    name: str = f(String, until=9, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=10, about="Id of the topic.")
    partitions: Sequence[OffsetFetchResponsePartition] = f(
        Array(OffsetFetchResponsePartition), about="One for each partition."
    )


@wire
class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str = f(String, since=8, about="The group.")
    topics: Sequence[OffsetFetchResponseTopic] = f(
        Array(OffsetFetchResponseTopic), since=8, about="One for each topic."
    )
    error_code: int = f(Int16, since=8, about="0, or why the group has no answer.")


@wire
class OffsetFetchResponse(Message):
    """The offsets kept."""

    api_key = ApiKey.OFFSET_FETCH
    valid_versions = (1, 10)
    flexible_from = 6

    throttle_time_ms: int = f(Int32, since=3, about="How long a quota held the request back.")
    topics: Sequence[OffsetFetchResponseTopic] = f(
        Array(OffsetFetchResponseTopic), until=7, about="One for each topic."
    )
    error_code: int = f(Int16, since=2, until=7, about="0, or why the whole request failed.")
    groups: Sequence[OffsetFetchResponseGroup] = f(
        Array(OffsetFetchResponseGroup), since=8, about="One for each group of the request."
    )


@wire
class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, until=9, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=10, about="Id of the topic.")
    partition_indexes: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class OffsetFetchRequestGroup(Struct):
    """What to look up for one group."""

    group_id: str = f(String, since=8, about="The group.")
    member_id: str | None = f(
        String, since=9, nullable_since=9, default=None, about="Id of the member, or null."
    )
    member_epoch: int = f(Int32, since=9, default=-1, about="The member's epoch, or -1.")
    topics: Sequence[OffsetFetchRequestTopic] | None = f(
        Array(OffsetFetchRequestTopic), since=8, nullable_since=8, about="Null for all topics."
    )


@wire
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """Look up offsets."""

    api_key = ApiKey.OFFSET_FETCH
    valid_versions = (1, 10)
    flexible_from = 6

    group_id: str = f(String, until=7, about="The group.")
    topics: Sequence[OffsetFetchRequestTopic] | None = f(
        Array(OffsetFetchRequestTopic), until=7, nullable_since=2, about="Null for all topics."
    )
    groups: Sequence[OffsetFetchRequestGroup] = f(
        Array(OffsetFetchRequestGroup), since=8, about="One for each group."
    )
    require_stable: bool = f(
        Bool, since=7, about="Whether to refuse offsets that an open transaction may change."
    )
