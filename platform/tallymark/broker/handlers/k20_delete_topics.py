"""k20 DeleteTopics: delete topics, with their records and the offsets committed on them.

Served 1-6.

* v4 flexible; v5 the error as text; v6 topics by name or id (KIP-516)

Kept: the answer comes when this broker's image no longer has the topic, or REQUEST_TIMED_OUT after
the client's timeout, while the deletion continues. Fetches parked on it are woken with
UNKNOWN_TOPIC_OR_PARTITION, and the offsets that groups committed on it are deleted. Topics of one
request are deleted together: their logs are renamed, durably, and the files are removed in the
background. Without DESCRIBE on a topic its id does not reveal its name. With
``delete.topic.enable=false`` nothing is deleted.
Simplified: any broker takes the request, the controller does it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tallymark.broker.requests.create_topic import check_not_own
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
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
    """Check each topic by itself, in the order of the request; delete all allowed ones at once."""
    asked = request.topics
    if call.version < _FIRST_WITH_IDS:
        asked = [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    twice = _meant_twice(state, asked)
    doomed: dict[str, DeleteTopicsResponseTopic] = {}
    answers: list[DeleteTopicsResponseTopic] = []
    async for topic in in_turns(asked):
        answer = _checked(state, topic, call, twice)
        answers.append(answer)
        if not answer.error_code and answer.name is not None:
            doomed[answer.name] = answer
    failed = await _delete(state, list(doomed), request.timeout_ms) if doomed else {}
    return DeleteTopicsResponse(
        responses=[_with(answer, failed.get(answer.name or "")) for answer in answers]
    )


async def _delete(
    state: BrokerState, names: Sequence[str], timeout_ms: int
) -> Mapping[str, KafkaError]:
    """The topics that were not deleted, and their errors."""
    try:
        return await state.timed_changes.within(timeout_ms, state.cluster.delete_topics(names))
    except KafkaError as error:  # some may have been deleted all the same
        return {name: error for name in names if name in state.image.topics}


def _with(answer: DeleteTopicsResponseTopic, error: KafkaError | None) -> DeleteTopicsResponseTopic:
    if answer.error_code or error is None:
        return answer
    return replace(answer, error_code=error.code, error_message=str(error))


def _checked(
    state: BrokerState, asked: DeleteTopicsRequestTopic, call: Call, twice: set[str]
) -> DeleteTopicsResponseTopic:
    """The topic with its id, or with the error by which it is not deleted."""
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
    except KafkaError as error:
        return DeleteTopicsResponseTopic(
            name=name, topic_id=topic_id, error_code=error.code, error_message=str(error)
        )
    return DeleteTopicsResponseTopic(name=name, topic_id=topic_id)


def _name(state: BrokerState, asked: DeleteTopicsRequestTopic, call: Call) -> str:
    """The name of the topic to delete. The error does not contain a name that the client may not
    see, either."""
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
    """Topics that the request contains more than once, by name or by id."""
    names = Counter(
        topic.name if topic.name is not None else state.image.names_by_id.get(topic.topic_id)
        for topic in asked
    )
    return {name for name, count in names.items() if name is not None and count > 1}


register(DeleteTopicsRequest, handle)
