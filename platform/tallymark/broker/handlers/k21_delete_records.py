"""k21 DeleteRecords: delete the records before an offset (KIP-107).

Served 0-2.

* v2 flexible

Kept: -1 means the high watermark; the answer has the first offset that is left; readers that wait
below it are answered at once. Refused where ``cleanup.policy`` has no ``delete`` (POLICY_VIOLATION)
and for ``__consumer_offsets``. With several replicas the answer waits until no log of a live one
begins before the offset, and has the least of their starts; after the timeout of the request it is
REQUEST_TIMED_OUT: the records are deleted here, and will be there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tallymark.broker.partitions.lead import Lead
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


@dataclass(slots=True)
class _Copied:
    """A partition that is deleted here, at ``place`` in ``partitions`` of the answer: ``starting``
    is done when the live replicas have followed."""

    partitions: list[DeleteRecordsResponsePartition]
    place: int
    starting: asyncio.Task[int]


async def handle(
    state: BrokerState, request: DeleteRecordsRequest, call: Call
) -> DeleteRecordsResponse:
    """Each partition by itself, in the order of the request; then wait for replicas."""
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
    copied: list[_Copied] = []
    try:
        async for partitions, name, asked in in_turns(places):
            answer, lead = await _delete(state, call, name, asked.partition_index, asked.offset)
            if lead is not None:
                starting = asyncio.create_task(lead.started_at(answer.low_watermark))
                copied.append(_Copied(partitions, len(partitions), starting))
            partitions.append(answer)
        if copied:
            await _wait(copied, request.timeout_ms)
    finally:
        for each in copied:
            each.starting.cancel()
    return DeleteRecordsResponse(topics=topics)


async def _delete(
    state: BrokerState, call: Call, topic: str, index: int, offset: int
) -> tuple[DeleteRecordsResponsePartition, Lead | None]:
    """The answer of this broker; and the leader's side, where replicas have to follow."""
    start, code = -1, 0
    lead: Lead | None = None
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
        lead = partition.lead
    except KafkaError as error:
        code = error.code
    answer = DeleteRecordsResponsePartition(
        partition_index=index, low_watermark=start, error_code=code
    )
    return answer, lead


async def _wait(copied: list[_Copied], timeout_ms: int) -> None:
    """Put what became of the replicas into the answers."""
    tasks = [each.starting for each in copied]
    await asyncio.wait(tasks, timeout=max(0, timeout_ms) / 1000)
    for each in copied:
        answer, starting = each.partitions[each.place], each.starting
        start, code = answer.low_watermark, CODES["REQUEST_TIMED_OUT"]
        if starting.done():
            error = starting.exception()
            if error is not None and not isinstance(error, KafkaError):
                raise error
            start, code = (starting.result(), 0) if error is None else (start, error.code)
        each.partitions[each.place] = DeleteRecordsResponsePartition(
            partition_index=answer.partition_index, low_watermark=start, error_code=code
        )


register(DeleteRecordsRequest, handle)
