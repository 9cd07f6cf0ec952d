"""k03 Metadata: brokers, topics, partitions and their leaders.

Served 0-13.

* v0 an empty list of topics means all; from v1 null means all and empty means none
* v1 the controller, racks (there are none), internal topics
* v2 the cluster id; v5 offline replicas; v7 leader epochs (KIP-320)
* v4 the asker says whether an unknown topic may be created; before it may
* v8 to v10 authorized operations: not known, there are no ACLs
* v9 flexible; v10 topic ids; v12 topics by id (KIP-516); v13 a top-level error, never used

Kept: an unknown topic is created where ``auto.create.topics.enable`` and the asker allow it. It is
created before the answer, so the first answer has its leaders.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from uuid import UUID

from tallymark.broker.handlers import Call, register
from tallymark.broker.image import MetadataImage, TopicImage
from tallymark.broker.partitions import Partitions
from tallymark.broker.state import BrokerState
from tallymark.broker.topics import auto_create
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def handle(
    state: BrokerState, request: MetadataRequest, call: Call
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """At once, unless a topic has to be created first."""
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        topics = [
            _topic(state.partitions, topic) for _, topic in sorted(state.image.topics.items())
        ]
        return _response(state.image, topics)
    unknown = [
        topic.name
        for topic in asked
        if topic.name is not None and topic.name not in state.image.topics
    ]
    if unknown and request.allow_auto_topic_creation and state.settings.auto_create_topics_enable:
        return _create_then_answer(state, asked, unknown)
    return _response(state.image, [_asked(state, topic, {}) for topic in asked])


async def _create_then_answer(
    state: BrokerState, asked: Sequence[MetadataRequestTopic], unknown: Sequence[str]
) -> MetadataResponse:
    failed: dict[str, KafkaError] = {}
    for name in unknown:
        try:
            await auto_create(state, name)
        except KafkaError as error:
            failed[name] = error
    return _response(state.image, [_asked(state, topic, failed) for topic in asked])


def _asked(
    state: BrokerState, asked: MetadataRequestTopic, failed: dict[str, KafkaError]
) -> MetadataResponseTopic:
    image, name = state.image, asked.name
    if name is None:
        name = image.names_by_id.get(asked.topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=CODES["UNKNOWN_TOPIC_ID"], name=None, topic_id=asked.topic_id
            )
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(state.partitions, topic)
    return MetadataResponseTopic(
        error_code=_code(failed.get(name)), name=name, topic_id=UUID(int=0)
    )


def _code(error: KafkaError | None) -> int:
    """Why a topic is not there. LEADER_NOT_AVAILABLE makes every client ask again."""
    if error is None:
        return CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    soon = error.retriable or error.code == CODES["TOPIC_ALREADY_EXISTS"]  # it is being deleted
    return CODES["LEADER_NOT_AVAILABLE"] if soon else error.code


def _topic(partitions: Partitions, topic: TopicImage) -> MetadataResponseTopic:
    image = partitions.image
    found: list[MetadataResponsePartition] = []
    for index, partition in enumerate(topic.partitions):
        leader = image.leader_of(partition)
        found.append(
            MetadataResponsePartition(
                error_code=0 if leader >= 0 else CODES["LEADER_NOT_AVAILABLE"],
                partition_index=index,
                leader_id=leader,
                leader_epoch=partitions.epoch_of(topic.name, index, partition.leader_epoch),
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=[r for r in partition.replicas if r not in image.brokers],
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=found,
    )


def _response(image: MetadataImage, topics: Sequence[MetadataResponseTopic]) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port)
            for _, broker in sorted(image.brokers.items())
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )


register(MetadataRequest, handle)
