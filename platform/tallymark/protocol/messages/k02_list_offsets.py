"""ListOffsets (key 2): the first offset at or after a time, or one end of the log.

* v0 answers several offsets, newest first: where segments begin that are before the time
* v2 adds the isolation level, v4 leader epochs, v6 is flexible
* v7 knows the offset of the largest timestamp (-3), v8 the local log's start (-4), v9 the last
  tiered offset (-5), v11 the earliest pending upload (-6)
* v10 adds a timeout
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int8,
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

MAX_TIMESTAMP: Final = -3


@wire
class ListOffsetsResponsePartition(Struct):
    """The offset found in one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why there is no offset.")
    old_style_offsets: Sequence[int] = f(
        Array(Int64), until=0, default=(), about="The offsets found, newest first."
    )
    timestamp: int = f(Int64, since=1, default=-1, about="Timestamp of the record found, or -1.")
    offset: int = f(Int64, since=1, default=-1, about="The offset, -1 when no record is so late.")
    leader_epoch: int = f(Int32, since=4, default=-1, about="Epoch of the record found, or -1.")


@wire
class ListOffsetsResponseTopic(Struct):
    """The offsets found in one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[ListOffsetsResponsePartition] = f(
        Array(ListOffsetsResponsePartition), about="One for each partition of the request."
    )


@wire
class ListOffsetsResponse(Message):
    """The offsets found."""

    api_key = ApiKey.LIST_OFFSETS
    valid_versions = (0, 11)
    flexible_from = 6

    throttle_time_ms: int = f(Int32, since=2, about="How long a quota held the request back.")
    topics: Sequence[ListOffsetsResponseTopic] = f(
        Array(ListOffsetsResponseTopic), about="One for each topic of the request."
    )


@wire
class ListOffsetsRequestPartition(Struct):
    """What to look up in one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    current_leader_epoch: int = f(
        Int32, since=4, default=-1, about="Leader epoch the asker knows; fences stale ones."
    )
    timestamp: int = f(Int64, about="Milliseconds, or -1 latest, -2 earliest, -3 the maximum.")
    max_num_offsets: int = f(Int32, until=0, default=1, about="The most offsets to answer.")


@wire
class ListOffsetsRequestTopic(Struct):
    """What to look up in one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[ListOffsetsRequestPartition] = f(
        Array(ListOffsetsRequestPartition), about="One for each partition."
    )


@wire
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Look up offsets by time."""

    api_key = ApiKey.LIST_OFFSETS
    valid_versions = (0, 11)
    flexible_from = 6

    replica_id: int = f(
        Int32, default=-1, about="Broker id of a follower, -1 for a consumer, -2 for a debugger."
    )
    isolation_level: int = f(Int8, since=2, about="0 read uncommitted, 1 read committed.")
    topics: Sequence[ListOffsetsRequestTopic] = f(
        Array(ListOffsetsRequestTopic), about="What to look up."
    )
    timeout_ms: int = f(Int32, since=10, about="How long remote storage may take.")
