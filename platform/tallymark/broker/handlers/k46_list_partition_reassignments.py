"""k46 ListPartitionReassignments: partitions that are on their way to other brokers (KIP-455).

Served 0.

Kept: needs DESCRIBE on the cluster. The answer is what this broker's image has; partitions that do
not move, or do not exist, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tallymark.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)
from tallymark.replication.reassignment import is_moving


async def handle(
    state: BrokerState, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    """At once."""
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.DESCRIBE, cluster, CLUSTER_NAME)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=str(error))
    topics = [
        ListPartitionReassignmentsResponseTopic(name=topic.name, partitions=moving)
        async for topic, indexes in in_turns(_asked(state.image, request.topics))
        if (moving := _moving(topic, indexes))
    ]
    return ListPartitionReassignmentsResponse(topics=topics)


def _asked(
    image: MetadataImage, asked: Iterable[ListPartitionReassignmentsRequestTopic] | None
) -> Iterable[tuple[TopicImage, Iterable[int]]]:
    """The topics that are asked for, each with its partitions; None: all."""
    if asked is None:
        return [(topic, range(len(topic.partitions))) for _, topic in sorted(image.topics.items())]
    return [
        (image.topics[one.name], sorted({*one.partition_indexes}))
        for one in asked
        if one.name in image.topics
    ]


def _moving(
    topic: TopicImage, indexes: Iterable[int]
) -> list[ListPartitionReassignmentsResponsePartition]:
    return [
        _described(index, topic.partitions[index])
        for index in indexes
        if 0 <= index < len(topic.partitions) and is_moving(topic.partitions[index].assignment)
    ]


def _described(
    index: int, partition: PartitionImage
) -> ListPartitionReassignmentsResponsePartition:
    moving = partition.assignment
    return ListPartitionReassignmentsResponsePartition(
        partition_index=index,
        replicas=moving.replicas,
        adding_replicas=moving.adding,
        removing_replicas=moving.removing,
    )


register(ListPartitionReassignmentsRequest, handle)
