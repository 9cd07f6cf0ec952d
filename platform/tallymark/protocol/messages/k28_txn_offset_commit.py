"""TxnOffsetCommit (key 28): remember how far a group has read, if the transaction commits.

* v2 adds leader epochs; v3 the member of the group (KIP-447), and is flexible
* v4 may answer TRANSACTION_ABORTABLE; v5 adds the group to the transaction by itself (KIP-890)
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
class TxnOffsetCommitResponsePartition(Struct):
    """Whether one partition's offset was kept."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why the offset was not kept.")


@wire
class TxnOffsetCommitResponseTopic(Struct):
    """Whether one topic's offsets were kept."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[TxnOffsetCommitResponsePartition] = f(
        Array(TxnOffsetCommitResponsePartition), about="One for each partition of the request."
    )


@wire
class TxnOffsetCommitResponse(Message):
    """Whether the offsets were kept, until the transaction ends."""

    api_key = ApiKey.TXN_OFFSET_COMMIT
    valid_versions = (0, 5)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    topics: Sequence[TxnOffsetCommitResponseTopic] = f(
        Array(TxnOffsetCommitResponseTopic), about="One for each topic of the request."
    )


@wire
class TxnOffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    committed_offset: int = f(Int64, about="Next offset to read.")
    committed_leader_epoch: int = f(
        Int32, since=2, default=-1, about="Epoch of the last record read, or -1."
    )
    committed_metadata: str | None = f(
        String, nullable_since=0, about="Free text kept with the offset."
    )


@wire
class TxnOffsetCommitRequestTopic(Struct):
    """The offsets of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[TxnOffsetCommitRequestPartition] = f(
        Array(TxnOffsetCommitRequestPartition), about="One for each partition."
    )


@wire
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Keep these offsets when the transaction commits."""

    api_key = ApiKey.TXN_OFFSET_COMMIT
    valid_versions = (0, 5)
    flexible_from = 3

    transactional_id: str = f(String, about="The transactional id.")
    group_id: str = f(String, about="The group.")
    producer_id: int = f(Int64, about="The producer id.")
    producer_epoch: int = f(Int16, about="The epoch of that.")
    generation_id: int = f(Int32, since=3, default=-1, about="Generation of the member, or -1.")
    member_id: str = f(String, since=3, about="Id of the member, or empty.")
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="Static member's name, or null."
    )
    topics: Sequence[TxnOffsetCommitRequestTopic] = f(
        Array(TxnOffsetCommitRequestTopic), about="One for each topic."
    )
