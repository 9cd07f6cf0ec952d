"""k19 CreateTopics: new topics.

Served 2-7.

* v4 -1 for the broker's default of partitions and replicas (KIP-464)
* v5 flexible; the response has the partitions and configs of the topic (KIP-525)
* v6 no change on the wire (KIP-599); v7 the topic's id (KIP-516)

Kept: every topic succeeds or fails by itself; the answer comes when this broker's image has the
topic with its leaders, or REQUEST_TIMED_OUT after the client's timeout, while the creation
continues (a timeout of 0 only starts it). ``validate_only`` creates nothing. More than 10,000
partitions in one request are a POLICY_VIOLATION. Without DESCRIBE_CONFIGS the response does not
have them. A name that differs from another topic's in ``.`` and ``_`` only is
INVALID_TOPIC_EXCEPTION. More than one replica needs level 1 of the feature ``replication.version``:
INVALID_REPLICATION_FACTOR with the reason. Replicas are spread over brokers and racks. Simplified:
any broker creates, not the controller only (the topic's nodes appear in one transaction).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from tallymark.broker.requests.create_topic import (
    CHANGED_AT_ONCE,
    check_not_own,
    check_topic,
    create_topic,
)
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.settings.config_alter import once
from tallymark.broker.settings.config_describe import describe_topic
from tallymark.broker.settings.topic_configs import check_total
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import side_by_side
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID


async def handle(
    state: BrokerState, request: CreateTopicsRequest, call: Call
) -> CreateTopicsResponse:
    """Topics are begun in the order of the request, some at a time: an image shows them all."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    named = Counter(topic.name for topic in request.topics)
    partitions = sum(_partitions(state, topic) for topic in request.topics)

    async def answer(topic: CreateTopicsRequestTopic) -> CreateTopicsResponseTopic:
        try:
            if len(request.topics) > 1:
                check_total(partitions)
            if named[topic.name] > 1:
                raise KafkaError(CODES["INVALID_REQUEST"], f"{topic.name[:80]!r} is named twice")
            _authorize(state, call, topic.name)
            left_ms = int((deadline - loop.time()) * 1000)
            return await _create(state, topic, call, request.validate_only, left_ms)
        except KafkaError as error:
            return CreateTopicsResponseTopic(
                name=topic.name, error_code=error.code, error_message=str(error)
            )

    answers = await side_by_side(request.topics, answer, CHANGED_AT_ONCE)
    return CreateTopicsResponse(topics=answers)


def _partitions(state: BrokerState, topic: CreateTopicsRequestTopic) -> int:
    """The requested number of partitions, checked."""
    default = state.settings.num_partitions
    return len(topic.assignments) or (topic.num_partitions if topic.num_partitions > 0 else default)


def _authorize(state: BrokerState, call: Call, name: str) -> None:
    """CREATE on the cluster, or on the topic by its name."""
    may = state.authorizer.may
    if not may(call.connection, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        require(state.authorizer, call.connection, Operation.CREATE, ResourceType.TOPIC, name)


async def _create(
    state: BrokerState,
    topic: CreateTopicsRequestTopic,
    call: Call,
    validate_only: bool,
    left_ms: int,
) -> CreateTopicsResponseTopic:
    check_not_own(topic.name)
    configs, assignment = _configs(topic), _assignment(topic)
    asked = (topic.num_partitions, configs, assignment, topic.replication_factor)
    wanted = (state, topic.name, *asked)
    (count, factor), topic_id = check_topic(*wanted), ZERO_UUID
    if not validate_only:
        topic_id = (await state.timed_changes.within(left_ms, create_topic(*wanted))).topic_id
    if not state.authorizer.may(
        call.connection, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quiet=True
    ):
        return _untold(topic.name, topic_id)
    return CreateTopicsResponseTopic(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=factor,
        configs=[
            CreateTopicsResponseConfig(
                name=config.name,
                value=config.value,
                read_only=config.read_only,
                config_source=config.source,
                is_sensitive=config.sensitive,
            )
            for config in describe_topic(state.static_settings, configs, state.dynamic)
        ],
    )


def _untold(name: str, topic_id: UUID) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(
        name=name,
        topic_id=topic_id,
        error_message=None,
        topic_config_error_code=CODES["TOPIC_AUTHORIZATION_FAILED"],
        configs=[],
    )


def _configs(topic: CreateTopicsRequestTopic) -> dict[str, str]:
    once(config.name for config in topic.configs)
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(CODES["INVALID_CONFIG"], f"{config.name[:80]} has no value")
        configs[config.name] = config.value.strip()
    return configs


def _assignment(topic: CreateTopicsRequestTopic) -> Sequence[Sequence[int]] | None:
    """The replicas of each partition if the client assigns them; else None."""
    if not topic.assignments:
        return None
    if topic.num_partitions != -1 or topic.replication_factor != -1:
        raise KafkaError(
            CODES["INVALID_REQUEST"], "an assignment and numbers of partitions or replicas"
        )
    indexes = sorted(item.partition_index for item in topic.assignments)
    if indexes != list(range(len(indexes))):
        raise KafkaError(
            CODES["INVALID_REPLICA_ASSIGNMENT"],
            f"partitions {indexes[:10]}, 0 to n are needed, each once",
        )
    placed = {item.partition_index: item.broker_ids for item in topic.assignments}
    return [placed[index] for index in indexes]


register(CreateTopicsRequest, handle)
