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
from typing import NamedTuple

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.log.results import DirInfo
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)

Key = tuple[str, int]


class _Target(NamedTuple):
    """A log directory: whether its disk has failed, and the partitions in it."""

    failed: bool
    partitions: frozenset[Key]


async def handle(
    state: BrokerState, request: AlterReplicaLogDirsRequest, call: Call
) -> AlterReplicaLogDirsResponse:
    """Read the disks in a thread, then answer. A partition that is named for several directories
    counts for the last one, as in Kafka."""
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
    logs = state.logs
    targets = {} if logs is None else await asyncio.to_thread(lambda: _targets(logs.dirs()))
    outcomes = [
        (key, _outcome(state, targets, key, path)) async for key, path in in_turns(wanted.items())
    ]
    return _response(outcomes)


def _targets(found: Iterable[DirInfo]) -> dict[str, _Target]:
    """By path."""
    return {
        each.path: _Target(each.error is not None, frozenset(log.partition for log in each.logs))
        for each in found
    }


def _outcome(state: BrokerState, targets: Mapping[str, _Target], key: Key, path: str) -> int:
    """The error code for one move."""
    target = targets.get(path.rstrip("/") or path)
    if target is None:
        return CODES["LOG_DIR_NOT_FOUND"]
    if target.failed:
        return CODES["KAFKA_STORAGE_ERROR"]
    if key in target.partitions:
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
