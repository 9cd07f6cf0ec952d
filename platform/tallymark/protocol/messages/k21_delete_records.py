"""DeleteRecords (key 21): forget everything before an offset (KIP-107).

* v2 is flexible
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
class DeleteRecordsResponsePartition(Struct):
    """Where one log begins now."""

    partition_index: int = f(Int32, about="Number of the partition.")
    low_watermark: int = f(Int64, about="First offset that is left, -1 with an error.")
    error_code: int = f(Int16, about="0, or why nothing was deleted.")


@wire
class DeleteRecordsResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[DeleteRecordsResponsePartition] = f(
        Array(DeleteRecordsResponsePartition), about="One for each partition."
    )


@wire
class DeleteRecordsResponse(Message):
    """Where the logs begin now."""

    api_key = ApiKey.DELETE_RECORDS
    valid_versions = (0, 2)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    topics: Sequence[DeleteRecordsResponseTopic] = f(
        Array(DeleteRecordsResponseTopic), about="One for each topic of the request."
    )


@wire
class DeleteRecordsRequestPartition(Struct):
    """What to delete of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    offset: int = f(Int64, about="First offset to keep; -1 for the high watermark.")


@wire
class DeleteRecordsRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[DeleteRecordsRequestPartition] = f(
        Array(DeleteRecordsRequestPartition), about="The partitions."
    )


@wire
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Delete records."""

    api_key = ApiKey.DELETE_RECORDS
    valid_versions = (0, 2)
    flexible_from = 2

    topics: Sequence[DeleteRecordsRequestTopic] = f(
        Array(DeleteRecordsRequestTopic), about="What to delete."
    )
    timeout_ms: int = f(Int32, about="How long to wait for it.")
