"""k21 DeleteRecords: delete the records before an offset (KIP-107).

Served 0-2.

* v2 flexible

Kept: -1 means the high watermark; the answer has the first offset that is left; readers that wait
below it are answered at once. Refused where ``cleanup.policy`` has no ``delete`` (POLICY_VIOLATION)
and for ``__consumer_offsets``. The timeout is not used: there are no replicas to wait for.
"""

from __future__ import annotations

from tallymark.broker.requests.create_topic import check_not_own
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)

_HIGH_WATERMARK = -1


async def handle(
    state: BrokerState, request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse:
    """Each partition by itself, in the order of the request."""
    answers: list[list[DeleteRecordsResponsePartition]] = [[] for _ in request.topics]
    topics = [
        DeleteRecordsResponseTopic(name=topic.name, partitions=partitions)
        for topic, partitions in zip(request.topics, answers, strict=True)
    ]
    places = (
        (partitions, topic.name, asked)
        for topic, partitions in zip(request.topics, answers, strict=True)
        for asked in topic.partitions
    )
    async for partitions, name, asked in in_turns(places):
        partitions.append(await _delete(state, call, name, asked.partition_index, asked.offset))
    return DeleteRecordsResponse(topics=topics)


async def _delete(
    state: BrokerState, call: Call, topic: str, index: int, offset: int
) -> DeleteRecordsResponsePartition:
    start, code = -1, 0
    try:
        require(state.authorizer, call.connection, Operation.DELETE, ResourceType.TOPIC, topic)
        check_not_own(topic)
        partition = state.partitions.find(topic, index)
        if not partition.log.config.delete:
            raise KafkaError(CODES["POLICY_VIOLATION"], f"{partition} is compacted only")
        wanted = partition.high_watermark if offset == _HIGH_WATERMARK else offset
        if not 0 <= wanted <= partition.high_watermark:
            raise KafkaError(CODES["OFFSET_OUT_OF_RANGE"], f"{partition}: {offset}")
        start = await partition.delete_records(wanted)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsResponsePartition(
        partition_index=index, low_watermark=start, error_code=code
    )


register(DeleteRecordsRequest, handle)
