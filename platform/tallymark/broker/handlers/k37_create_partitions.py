"""k37 CreatePartitions: more partitions for a topic.

Served 0-3.

* v2 flexible; v1 and v3 no change on the wire

Kept: ``count`` is the number afterwards; the new ones have as many replicas as the others;
assignments place them, in order; every topic succeeds or fails by itself; the answer comes when
this broker's image has them, or REQUEST_TIMED_OUT after the client's timeout, while the creation
continues. ``validate_only`` creates nothing. Refused for ``__consumer_offsets``: another number
would move groups to other coordinators. Existing records stay where they are, so keys may move to
other partitions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tallymark.broker.metadata.assignment import grow
from tallymark.broker.requests.config_resources import topic_of
from tallymark.broker.requests.create_topic import CHANGED_AT_ONCE, check_not_own
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.settings.topic_configs import check_partitions, check_total
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import side_by_side
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)


async def handle(
    state: BrokerState, request: CreatePartitionsRequest, call: Call
) -> CreatePartitionsResponse:
    """Topics are begun in the order of the request, some at a time: an image shows them all."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.timeout_ms / 1000
    named = Counter(topic.name for topic in request.topics)
    partitions = sum(max(0, topic.count) for topic in request.topics)

    async def result(topic: CreatePartitionsRequestTopic) -> CreatePartitionsResponseResult:
        code, message = 0, None
        try:
            if len(request.topics) > 1:
                check_total(partitions)
            if named[topic.name] > 1:
                raise KafkaError(CODES["INVALID_REQUEST"], f"{topic.name[:80]!r} is named twice")
            assignment = _check(state, topic, call)
            if not request.validate_only:
                await state.timed_changes.within(
                    int((deadline - loop.time()) * 1000),
                    state.cluster.create_partitions(topic.name, topic.count, assignment),
                )
        except KafkaError as error:
            code, message = error.code, str(error)
        return CreatePartitionsResponseResult(
            name=topic.name, error_code=code, error_message=message
        )

    return CreatePartitionsResponse(
        results=await side_by_side(request.topics, result, CHANGED_AT_ONCE)
    )


def _check(
    state: BrokerState, asked: CreatePartitionsRequestTopic, call: Call
) -> Sequence[Sequence[int]] | None:
    """Raise an error for an invalid request; else return the replicas that the client assigns to
    the new partitions, or None."""
    require(state.authorizer, call.connection, Operation.ALTER, ResourceType.TOPIC, asked.name)
    check_not_own(asked.name)
    topic, assignment = topic_of(state, asked.name), None
    if asked.assignments is not None:
        assignment = [item.broker_ids for item in asked.assignments]
    if asked.count > len(topic.partitions):
        check_partitions(asked.count)
    grow(state.image, topic, len(topic.partitions), asked.count, assignment)
    return assignment


register(CreatePartitionsRequest, handle)
