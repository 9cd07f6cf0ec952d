"""k23 OffsetForLeaderEpoch: where a leader epoch ends in the log (KIP-101, KIP-320).

Served 2-4.

* v2 the client's leader epoch fences it; the response has the epoch found
* v3 the replica id is read and ignored
* v4 flexible

By this a reader detects that the log was truncated below its position: the epoch of its last record
ends earlier here.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)


def handle(
    state: BrokerState, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    """Look up each partition by itself."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=[_answer(state, topic.topic, ask, call) for ask in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    state: BrokerState, topic: str, ask: OffsetForLeaderEpochRequestPartition, call: Call
) -> OffsetForLeaderEpochResponsePartition:
    try:
        require(state.authorizer, call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = state.partitions.find(topic, ask.partition)
        partition.check_epoch(ask.current_leader_epoch)
        partition.log.check_usable()
        epoch, end = partition.log.end_offset_for_epoch(ask.leader_epoch)
    except KafkaError as error:
        return OffsetForLeaderEpochResponsePartition(error_code=error.code, partition=ask.partition)
    return OffsetForLeaderEpochResponsePartition(
        partition=ask.partition, leader_epoch=epoch, end_offset=end
    )


register(OffsetForLeaderEpochRequest, handle)
