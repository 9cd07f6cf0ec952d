"""k35 DescribeLogDirs: the data directories of this broker and their partitions (KIP-113).

Served 0-4.

* v2 flexible; v3 a top-level error; v4 the disk's size and free bytes (KIP-827)

Kept: null means all topics; a directory whose disk has failed is KAFKA_STORAGE_ERROR and has
no partitions; topics that are not here are left out. Logs are never moved from one directory to
another, so there are no future ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.log.results import DirInfo, LogInfo
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)


async def handle(
    state: BrokerState, request: DescribeLogDirsRequest, call: Call
) -> DescribeLogDirsResponse:
    """Read the disks in a thread, then answer."""
    may = state.authorizer.may
    if not may(call.connection, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=CODES["CLUSTER_AUTHORIZATION_FAILED"], results=[])
    if state.logs is None:
        return DescribeLogDirsResponse(results=[])
    found = await asyncio.to_thread(state.logs.dirs)
    wanted = None if request.topics is None else _wanted(request.topics)
    return DescribeLogDirsResponse(results=[_result(each, wanted) for each in found])


def _wanted(topics: Sequence[DescribeLogDirsRequestTopic]) -> set[tuple[str, int]]:
    return {(topic.topic, index) for topic in topics for index in topic.partitions}


def _result(found: DirInfo, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResponseResult:
    logs = found.logs if found.error is None else ()
    chosen = [log for log in logs if wanted is None or tuple(log.partition) in wanted]
    return DescribeLogDirsResponseResult(
        error_code=0 if found.error is None else CODES["KAFKA_STORAGE_ERROR"],
        log_dir=found.path,
        topics=_topics(chosen),
        total_bytes=found.total_bytes,
        usable_bytes=found.usable_bytes,
    )


def _topics(logs: Iterable[LogInfo]) -> list[DescribeLogDirsResponseTopic]:
    by_topic: dict[str, list[DescribeLogDirsResponsePartition]] = {}
    for log in sorted(logs, key=lambda log: log.partition):
        by_topic.setdefault(log.partition.topic, []).append(
            DescribeLogDirsResponsePartition(
                partition_index=log.partition.partition, partition_size=log.size, offset_lag=0
            )
        )
    return [
        DescribeLogDirsResponseTopic(name=name, partitions=partitions)
        for name, partitions in by_topic.items()
    ]


register(DescribeLogDirsRequest, handle)
