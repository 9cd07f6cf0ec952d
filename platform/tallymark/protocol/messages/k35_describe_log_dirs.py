"""DescribeLogDirs (key 35): how much each log directory of this broker holds (KIP-113).

* v2 is flexible, v3 adds a top-level error, v4 the size of the disk (KIP-827)
* v5 says whether new logs are kept out of the directory (KIP-1066)
"""

from __future__ import annotations

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
    f,
    wire,
)


@wire
class DescribeLogDirsResponsePartition(Struct):
    """One log."""

    partition_index: int = f(Int32, about="Number of the partition.")
    partition_size: int = f(Int64, about="Bytes of its segments.")
    offset_lag: int = f(Int64, about="How many offsets it is behind.")
    is_future_key: bool = f(Bool, about="Whether it is a copy under way from another directory.")


@wire
class DescribeLogDirsResponseTopic(Struct):
    """The logs of one topic in it."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[DescribeLogDirsResponsePartition] = f(
        Array(DescribeLogDirsResponsePartition), about="Its logs."
    )


@wire
class DescribeLogDirsResponseResult(Struct):
    """One directory."""

    error_code: int = f(Int16, about="0, or why it cannot be used.")
    log_dir: str = f(String, about="Its absolute path.")
    topics: Sequence[DescribeLogDirsResponseTopic] = f(
        Array(DescribeLogDirsResponseTopic), about="The topics that have logs in it."
    )
    total_bytes: int = f(Int64, since=4, default=-1, about="Size of the disk, or -1.")
    usable_bytes: int = f(Int64, since=4, default=-1, about="Bytes free on the disk, or -1.")
    is_cordoned: bool = f(Bool, since=5, about="Whether new logs are kept out of it.")


@wire
class DescribeLogDirsResponse(Message):
    """The directories."""

    api_key = ApiKey.DESCRIBE_LOG_DIRS
    valid_versions = (1, 5)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, since=3, about="0, or why nothing is told.")
    results: Sequence[DescribeLogDirsResponseResult] = f(
        Array(DescribeLogDirsResponseResult), about="The directories of this broker."
    )


@wire
class DescribeLogDirsRequestTopic(Struct):
    """Partitions of one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """Ask for sizes."""

    api_key = ApiKey.DESCRIBE_LOG_DIRS
    valid_versions = (1, 5)
    flexible_from = 2

    topics: Sequence[DescribeLogDirsRequestTopic] | None = f(
        Array(DescribeLogDirsRequestTopic),
        nullable_since=0,
        default=None,
        about="Null for all topics.",
    )
