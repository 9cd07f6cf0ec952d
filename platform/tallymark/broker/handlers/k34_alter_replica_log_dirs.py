"""k34 AlterReplicaLogDirs: partitions move to other log directories of this broker (KIP-113).

Served 1-2.

* v2 flexible

Kept: needs ALTER on the cluster; a partition that is in the directory already is done; a directory
that this broker does not have is LOG_DIR_NOT_FOUND, one whose disk has failed KAFKA_STORAGE_ERROR.
Simplified: logs stay in the directory they were made in, so every other move is POLICY_VIOLATION
and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from tallymark.broker.authorizer import CLUSTER_NAME, Operation, ResourceType, require
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.log.results import DirInfo
from tallymark.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)

Key = tuple[str, int]


async def handle(
    state: BrokerState, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    """The disks are asked in a thread. A partition named for several directories counts for the
    last one, as with Kafka."""
    wanted = {
        (topic.name, index): asked.path
        for asked in request.dirs
        for topic in asked.topics
        for index in topic.partitions
    }
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.ALTER, cluster, CLUSTER_NAME)
    except KafkaError as error:
        return _response((key, error.code) for key in wanted)
    found = [] if state.logs is None else await asyncio.to_thread(state.logs.dirs)
    dirs = {each.path: each for each in found}
    return _response((key, _outcome(state, dirs, key, path)) for key, path in wanted.items())


def _outcome(state: BrokerState, dirs: Mapping[str, DirInfo], key: Key, path: str) -> int:
    """What comes of one move, as a code."""
    target = dirs.get(path.rstrip("/") or path)
    if target is None:
        return CODES["LOG_DIR_NOT_FOUND"]
    if target.error is not None:
        return CODES["KAFKA_STORAGE_ERROR"]
    if any(tuple(log.partition) == key for log in target.logs):
        return 0
    try:
        state.partitions.find(*key)
    except KafkaError as error:
        return error.code
    return CODES["POLICY_VIOLATION"]


def _response(outcomes: Iterable[tuple[Key, int]]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, list[AlterReplicaLogDirsResponsePartition]] = {}
    for (topic, index), code in outcomes:
        answer = AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=code)
        topics.setdefault(topic, []).append(answer)
    results: Sequence[AlterReplicaLogDirsResponseTopic] = [
        AlterReplicaLogDirsResponseTopic(topic_name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
    return AlterReplicaLogDirsResponse(results=results)


register(AlterReplicaLogDirsRequest, handle)
