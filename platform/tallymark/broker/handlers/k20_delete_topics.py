"""k20 DeleteTopics: topics go, with their records and what groups committed on them.

Served 1-6.

* v4 flexible; v5 the error in words; v6 topics by name or id (KIP-516)

Kept: the answer comes when this broker's picture has the topic no more, or REQUEST_TIMED_OUT after
the asker's timeout, the deletion going on; fetches parked on it are woken with
UNKNOWN_TOPIC_OR_PARTITION, and what groups committed on it is forgotten. Who may not DESCRIBE a
topic does not learn its name by its id. With ``delete.topic.enable=false`` nothing is deleted.
Simplified: any broker takes the request, the controller does it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tallymark.broker.authorizer import Operation, ResourceType, require
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.topics import check_not_own
from tallymark.broker.turns import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID

_FIRST_WITH_IDS = 6
_FIRST_WITH_DISABLED = 3


async def handle(
    state: BrokerState, request: DeleteTopicsRequest, call: Call
) -> DeleteTopicsResponse:
    """One after the other, in the order of the request."""
    asked = request.topics
    if call.version < _FIRST_WITH_IDS:
        asked = [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    twice = _meant_twice(state, asked)
    answers: list[DeleteTopicsResponseTopic] = []
    async for topic in in_turns(asked):
        left_ms = int((deadline - loop.time()) * 1000)
        answers.append(await _delete(state, topic, call, twice, left_ms))
    return DeleteTopicsResponse(responses=answers)


async def _delete(
    state: BrokerState,
    asked: DeleteTopicsRequestTopic,
    call: Call,
    twice: set[str],
    left_ms: int,
) -> DeleteTopicsResponseTopic:
    name, topic_id = asked.name, asked.topic_id
    try:
        if not state.settings.delete_topic_enable:
            old = call.version < _FIRST_WITH_DISABLED
            raise KafkaError(
                CODES["INVALID_REQUEST" if old else "TOPIC_DELETION_DISABLED"],
                "delete.topic.enable is false",
            )
        found = _name(state, asked, call)
        name = found
        if found in twice:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{found[:80]!r} is named twice")
        require(state.authorizer, call.connection, Operation.DELETE, ResourceType.TOPIC, found)
        check_not_own(found)
        known = state.image.topics.get(found)
        if known is None:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], found[:80])
        topic_id = known.topic_id
        await state.patience.within(left_ms, state.cluster.delete_topic(found))
    except KafkaError as error:
        return DeleteTopicsResponseTopic(
            name=name, topic_id=topic_id, error_code=error.code, error_message=str(error)
        )
    return DeleteTopicsResponseTopic(name=name, topic_id=topic_id)


def _name(state: BrokerState, asked: DeleteTopicsRequestTopic, call: Call) -> str:
    """The name of what shall go. A name that nobody may be told is not in the error either."""
    if asked.name is not None:
        if asked.topic_id != ZERO_UUID:
            raise KafkaError(CODES["INVALID_REQUEST"], "a name and an id for one topic")
        return asked.name
    if asked.topic_id == ZERO_UUID:
        raise KafkaError(CODES["INVALID_REQUEST"], "neither a name nor an id")
    name = state.partitions.name_of(asked.topic_id)
    if not state.authorizer.may(call.connection, Operation.DESCRIBE, ResourceType.TOPIC, name):
        raise KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"], f"topic id {asked.topic_id}")
    return name


def _meant_twice(state: BrokerState, asked: Sequence[DeleteTopicsRequestTopic]) -> set[str]:
    """Topics that the request means more than once, by name or by id."""
    names = Counter(
        topic.name if topic.name is not None else state.image.names_by_id.get(topic.topic_id)
        for topic in asked
    )
    return {name for name, count in names.items() if name is not None and count > 1}


register(DeleteTopicsRequest, handle)
