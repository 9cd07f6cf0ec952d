"""k47 OffsetDelete: delete the offsets of a group on some partitions (KIP-496).

Served 0.

Kept: a topic that a member is subscribed to is GROUP_SUBSCRIBED_TO_TOPIC; a group of another kind
than consumers must be empty, since the broker cannot know what it reads. An offset that was never
committed is deleted all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping

from tallymark.broker.coordinators.refusals import refusal_of
from tallymark.broker.coordinators.settled import respond
from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_Place = tuple[str, int]


def handle(
    state: BrokerState, request: OffsetDeleteRequest, call: Call
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Delete what may be deleted; a code for each partition."""
    try:
        shard = authorized_shard(state, call.connection, Operation.DELETE, request.group_id)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    codes = dict(_refusals(state, request, call))
    places = [place for place, code in codes.items() if not code]
    try:
        deleted = shard.delete_offsets(request.group_id, places)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=refusal_of(error))

    def answer(result: tuple[int, list[int]]) -> OffsetDeleteResponse:
        error_code, found = result
        if error_code:
            return OffsetDeleteResponse(error_code=error_code)
        return _response(request, codes | dict(zip(places, found, strict=True)))

    return respond(deleted, answer)


def _response(request: OffsetDeleteRequest, codes: Mapping[_Place, int]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        part.partition_index, codes[topic.name, part.partition_index]
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refusals(
    state: BrokerState, request: OffsetDeleteRequest, call: Call
) -> Iterator[tuple[_Place, int]]:
    """The error code of each partition, before the group is checked; 0 for none."""
    may = state.authorizer.may
    for topic in request.topics:
        allowed = may(call.connection, Operation.READ, ResourceType.TOPIC, topic.name)
        known = state.image.topics.get(topic.name)
        count = len(known.partitions) if known else 0
        for part in topic.partitions:
            there = 0 <= part.partition_index < count
            code = 0 if there else CODES["UNKNOWN_TOPIC_OR_PARTITION"]
            if not allowed:
                code = CODES["TOPIC_AUTHORIZATION_FAILED"]
            yield (topic.name, part.partition_index), code


register(OffsetDeleteRequest, handle)
