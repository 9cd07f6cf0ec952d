"""Produce (key 0): append record batches to partitions.

* v2 adds the log append time to the answer, v5 the log start offset
* v3 adds the transactional id; from here on batches are of format v2 (magic 2)
* v7 allows zstd
* v8 names the records that were refused
* v9 is flexible
* v10 names the new leader in tagged fields (KIP-951)
* v13 names topics by id
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Buffer,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Request,
    String,
    Struct,
    Uuid,
    f,
    wire,
)


@wire
class ProduceResponseRecordError(Struct):
    """One record that made its batch be refused."""

    batch_index: int = f(Int32, since=8, about="Place of the record in its batch.")
    batch_index_error_message: str | None = f(
        String, since=8, nullable_since=8, default=None, about="What is wrong with the record."
    )


@wire
class ProduceResponseLeader(Struct):
    """The leader of the partition now."""

    leader_id: int = f(Int32, since=10, default=-1, about="Broker id, -1 when unknown.")
    leader_epoch: int = f(Int32, since=10, default=-1, about="Its epoch, -1 when unknown.")


@wire
class ProduceResponsePartition(Struct):
    """What became of one partition's batches."""

    index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why nothing was appended.")
    base_offset: int = f(Int64, about="Offset of the first record.")
    log_append_time_ms: int = f(
        Int64, since=2, default=-1, about="Broker's time of appending, -1 for CreateTime topics."
    )
    log_start_offset: int = f(Int64, since=5, default=-1, about="First offset of the log.")
    record_errors: Sequence[ProduceResponseRecordError] = f(
        Array(ProduceResponseRecordError), since=8, about="The records that are to blame."
    )
    error_message: str | None = f(
        String, since=8, nullable_since=8, default=None, about="The error in words."
    )
    current_leader: ProduceResponseLeader = f(
        ProduceResponseLeader, since=10, tag=0, about="The leader to turn to."
    )


@wire
class ProduceResponseTopic(Struct):
    """What became of one topic's batches."""

    name: str = f(String, until=12, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=13, about="Id of the topic.")
    partition_responses: Sequence[ProduceResponsePartition] = f(
        Array(ProduceResponsePartition), about="One for each partition of the request."
    )


@wire
class ProduceResponseNode(Struct):
    """Address of a leader named in a ``current_leader``."""

    node_id: int = f(Int32, since=10, about="Broker id.")
    host: str = f(String, since=10, about="Its host.")
    port: int = f(Int32, since=10, about="Its port.")
    rack: str | None = f(
        String, since=10, nullable_since=10, default=None, about="Its rack, or null."
    )


@wire
class ProduceResponse(Message):
    """The answer to a produce request with acks other than 0."""

    api_key = ApiKey.PRODUCE
    valid_versions = (0, 13)
    flexible_from = 9

    responses: Sequence[ProduceResponseTopic] = f(
        Array(ProduceResponseTopic), about="One for each topic of the request."
    )
    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    node_endpoints: Sequence[ProduceResponseNode] = f(
        Array(ProduceResponseNode), since=10, tag=0, about="Addresses of the leaders named above."
    )


@wire
class ProduceRequestPartition(Struct):
    """Batches for one partition."""

    index: int = f(Int32, about="Number of the partition.")
    records: Buffer | None = f(
        Records, nullable_since=0, default=None, about="Record batches, one after another."
    )


@wire
class ProduceRequestTopic(Struct):
    """Batches for one topic."""

    name: str = f(String, until=12, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=13, about="Id of the topic.")
    partition_data: Sequence[ProduceRequestPartition] = f(
        Array(ProduceRequestPartition), about="One for each partition."
    )


@wire
class ProduceRequest(Request[ProduceResponse]):
    """Append these batches."""

    api_key = ApiKey.PRODUCE
    valid_versions = (0, 13)
    flexible_from = 9

    transactional_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="The transaction's id, or null."
    )
    acks: int = f(
        Int16, about="Answer when written by: -1 all in sync, 1 the leader, 0 no answer at all."
    )
    timeout_ms: int = f(Int32, about="How long the leader may wait for the others.")
    topic_data: Sequence[ProduceRequestTopic] = f(
        Array(ProduceRequestTopic), about="One for each topic."
    )
