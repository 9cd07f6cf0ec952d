"""k45 AlterPartitionReassignments: move partitions to other brokers, or cancel that (KIP-455).

Served 0.

Kept: needs ALTER on the cluster. Each partition succeeds or fails by itself; the answer comes when
the moves have begun, and they are completed later, when all that are added are in sync. Null
replicas cancel the move under way. A partition named twice is refused. Any broker can be asked:
moves are written by compare-and-set. While the level of ``replication.version`` is 0 everything is
refused: a partition could not be copied. An error of the whole request is repeated for each
partition: Java's clients read it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tallymark.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION

Targets = Mapping[TopicPartition, Sequence[int] | None]


async def handle(
    state: BrokerState, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    """When the moves have begun, or after the client's timeout."""
    keys = [
        (topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
    ]
    targets: Targets = {
        (topic.name, one.partition_index): one.replicas
        for topic in request.topics
        for one in topic.partitions
    }
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.ALTER, cluster, CLUSTER_NAME)
        check_moves_served(state)
        failed = _twice(keys)
        once = {key: target for key, target in targets.items() if key not in failed}
        work = state.cluster.reassign(once)
        failed |= await state.timed_changes.within(request.timeout_ms, work)
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(
            error_code=error.code,
            error_message=str(error),
            responses=_topics(targets, dict.fromkeys(targets, error)),
        )
    return AlterPartitionReassignmentsResponse(responses=_topics(targets, failed))


def check_moves_served(state: BrokerState) -> None:
    """Raise UNSUPPORTED_VERSION while partitions have one replica each."""
    if state.image.features.level(REPLICATION) < 1:
        raise KafkaError(
            CODES["UNSUPPORTED_VERSION"],
            f"partitions cannot move: {REPLICATION} is at level 0 in this cluster",
        )


def _twice(keys: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    return {
        key: KafkaError(CODES["INVALID_REQUEST"], f"{key[0]}-{key[1]} is named twice")
        for key, times in Counter(keys).items()
        if times > 1
    }


def _topics(
    targets: Targets, failed: Mapping[TopicPartition, KafkaError]
) -> list[AlterPartitionReassignmentsResponseTopic]:
    return [
        AlterPartitionReassignmentsResponseTopic(
            name=topic, partitions=[_partition(key[1], failed.get(key)) for key in keys]
        )
        for topic, keys in groupby(sorted(targets), key=lambda key: key[0])
    ]


def _partition(
    index: int, error: KafkaError | None
) -> AlterPartitionReassignmentsResponsePartition:
    return AlterPartitionReassignmentsResponsePartition(
        partition_index=index,
        error_code=error.code if error else 0,
        error_message=str(error) if error else None,
    )


register(AlterPartitionReassignmentsRequest, handle)
