"""AlterReplicaLogDirs (key 34): partitions move to other log directories of a broker (KIP-113).

* v2 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
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
class AlterReplicaLogDirsResponsePartition(Struct):
    """What became of one partition."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why it does not move.")


@wire
class AlterReplicaLogDirsResponseTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = f(String, about="Name of the topic.")
    partitions: Sequence[AlterReplicaLogDirsResponsePartition] = f(
        Array(AlterReplicaLogDirsResponsePartition), about="One for each partition."
    )


@wire
class AlterReplicaLogDirsResponse(Message):
    """What became of the partitions."""

    api_key = ApiKey.ALTER_REPLICA_LOG_DIRS
    valid_versions = (1, 2)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[AlterReplicaLogDirsResponseTopic] = f(
        Array(AlterReplicaLogDirsResponseTopic), about="One for each topic."
    )


@wire
class AlterReplicaLogDirsRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class AlterReplicaLogDirsRequestDir(Struct):
    """What is to be in one log directory."""

    path: str = f(String, about="The absolute path of the log directory.")
    topics: Sequence[AlterReplicaLogDirsRequestTopic] = f(
        Array(AlterReplicaLogDirsRequestTopic), about="The topics that move to it."
    )


@wire
class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    """Move partitions."""

    api_key = ApiKey.ALTER_REPLICA_LOG_DIRS
    valid_versions = (1, 2)
    flexible_from = 2

    dirs: Sequence[AlterReplicaLogDirsRequestDir] = f(
        Array(AlterReplicaLogDirsRequestDir), about="One for each log directory."
    )
