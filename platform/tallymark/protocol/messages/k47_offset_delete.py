"""OffsetDelete (key 47): forget how far a group has read some partitions (KIP-496).

It has one version, which is not flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Array, Int16, Int32, Message, Request, String, Struct, f, wire


@wire
class OffsetDeleteResponsePartition(Struct):
    """What became of one offset."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why the offset is still there.")


@wire
class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[OffsetDeleteResponsePartition] = f(
        Array(OffsetDeleteResponsePartition), about="One for each partition."
    )


@wire
class OffsetDeleteResponse(Message):
    """What became of the offsets."""

    api_key = ApiKey.OFFSET_DELETE
    valid_versions = (0, 0)
    flexible_from = 1

    error_code: int = f(Int16, about="0, or why the whole request failed.")
    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    topics: Sequence[OffsetDeleteResponseTopic] = f(
        Array(OffsetDeleteResponseTopic), about="One for each topic of the request."
    )


@wire
class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int = f(Int32, about="Number of the partition.")


@wire
class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[OffsetDeleteRequestPartition] = f(
        Array(OffsetDeleteRequestPartition), about="The partitions."
    )


@wire
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Delete offsets of a group."""

    api_key = ApiKey.OFFSET_DELETE
    valid_versions = (0, 0)
    flexible_from = 1

    group_id: str = f(String, about="The group.")
    topics: Sequence[OffsetDeleteRequestTopic] = f(
        Array(OffsetDeleteRequestTopic), about="What to forget."
    )
