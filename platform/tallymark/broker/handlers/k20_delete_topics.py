"""k20 DeleteTopics.

Served 1-6.

* v4 flexible; v5 the error in words; v6 topics by name or id (KIP-516)

Kept: the answer comes when this broker's picture has the topic no more; fetches parked on it are
woken with UNKNOWN_TOPIC_OR_PARTITION, and what groups committed on it is forgotten. Simplified:
any broker takes the request, the controller does it; the timeout of the request is not used.
"""

from __future__ import annotations

from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.placement import OFFSETS_TOPIC
from tallymark.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID

_FIRST_WITH_IDS = 6


async def handle(
    state: BrokerState, request: DeleteTopicsRequest, call: Call
) -> DeleteTopicsResponse:
    """One after the other, in the order of the request."""
    asked = request.topics
    if call.version < _FIRST_WITH_IDS:
        asked = [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[await _delete(state, topic) for topic in asked])


async def _delete(state: BrokerState, topic: DeleteTopicsRequestTopic) -> DeleteTopicsResponseTopic:
    try:
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            raise KafkaError(CODES["INVALID_REQUEST"], "a name and an id for one topic")
        name = topic.name
        if name is None:
            name = state.partitions.name_of(topic.topic_id)
        if name == OFFSETS_TOPIC:
            raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{name} is the brokers' own")
        known = state.image.topics.get(name)
        if known is None:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name)
        await state.cluster.delete_topic(name)
    except KafkaError as error:
        return DeleteTopicsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=error.code,
            error_message=str(error),
        )
    return DeleteTopicsResponseTopic(name=name, topic_id=known.topic_id)


register(DeleteTopicsRequest, handle)
