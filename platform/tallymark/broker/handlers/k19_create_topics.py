"""k19 CreateTopics.

Served 2-7.

* v4 -1 for the broker's default of partitions and replicas (KIP-464)
* v5 flexible; tells what the topic got (KIP-525); v6 no change on the wire (KIP-599)
* v7 the topic's id (KIP-516)

Kept: every topic succeeds or fails by itself; the answer comes when this broker's picture has the
topic with its leaders. ``validate_only`` creates nothing. Simplified: a partition has one replica;
any broker creates, not the controller only (the topic's nodes appear in one transaction); the
timeout is not used; configs are told as given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.topics import check_topic, create_topic
from tallymark.errors import CODES, KafkaError
from tallymark.groups.placement import OFFSETS_TOPIC
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID

_SET_ON_THE_TOPIC = 1
"""ConfigSource of a value given for the topic itself (Kafka's DYNAMIC_TOPIC_CONFIG)."""


async def handle(
    state: BrokerState, request: CreateTopicsRequest, call: Call
) -> CreateTopicsResponse:
    """One after the other, in the order of the request."""
    named = Counter(topic.name for topic in request.topics)
    answers: list[CreateTopicsResponseTopic] = []
    for topic in request.topics:
        try:
            if named[topic.name] > 1:
                raise KafkaError(CODES["INVALID_REQUEST"], f"{topic.name} is named twice")
            answers.append(await _create(state, topic, request.validate_only))
        except KafkaError as error:
            answers.append(
                CreateTopicsResponseTopic(
                    name=topic.name, error_code=error.code, error_message=str(error)
                )
            )
    return CreateTopicsResponse(topics=answers)


async def _create(
    state: BrokerState, topic: CreateTopicsRequestTopic, validate_only: bool
) -> CreateTopicsResponseTopic:
    configs = _configs(topic)
    assignment = _assignment(topic)
    topic_id = ZERO_UUID
    count = check_topic(state, topic.name, topic.num_partitions, configs, assignment)
    if not validate_only:
        created = await create_topic(state, topic.name, topic.num_partitions, configs, assignment)
        topic_id = created.topic_id
    return CreateTopicsResponseTopic(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=1,
        configs=[
            CreateTopicsResponseConfig(name=name, value=value, config_source=_SET_ON_THE_TOPIC)
            for name, value in configs.items()
        ],
    )


def _configs(topic: CreateTopicsRequestTopic) -> dict[str, str]:
    if topic.name == OFFSETS_TOPIC:
        raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{topic.name} is the brokers' own")
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(CODES["INVALID_CONFIG"], f"{config.name} has no value")
        configs[config.name] = config.value
    return configs


def _assignment(topic: CreateTopicsRequestTopic) -> Sequence[Sequence[int]] | None:
    """Replicas by partition where the client places them by hand."""
    if not topic.assignments:
        if topic.replication_factor not in (-1, 1):
            raise KafkaError(
                CODES["INVALID_REPLICATION_FACTOR"],
                f"{topic.replication_factor} replicas, partitions have one",
            )
        return None
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise KafkaError(
            CODES["INVALID_REQUEST"], "an assignment and numbers of partitions or replicas"
        )
    placed = {item.partition_index: item.broker_ids for item in topic.assignments}
    if sorted(placed) != list(range(len(topic.assignments))):
        raise KafkaError(
            CODES["INVALID_REPLICA_ASSIGNMENT"], f"partitions {sorted(placed)}, 0 to n are needed"
        )
    return [placed[index] for index in range(len(placed))]


register(CreateTopicsRequest, handle)
