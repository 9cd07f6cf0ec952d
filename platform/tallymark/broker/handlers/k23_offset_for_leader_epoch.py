"""k23 OffsetForLeaderEpoch: where a leader epoch ends in the log (KIP-101, KIP-320).

Served 2-4.

* v2 the client's leader epoch fences it; the response has the epoch found
* v3 a replica id asks for CLUSTER_ACTION in place of DESCRIBE
* v4 flexible

A broker may ask a replica that does not lead: so the controller finds the longest log where no
replica surely has everything.

By this a reader detects that the log was truncated below its position: the epoch of its last record
ends earlier here. The latest epoch ends where the log does, for consumers, too: their positions may
be above the high watermark of a leader that was just elected, and are not cut off there.
"""

from __future__ import annotations

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.cluster_action import require_describe
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
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
                partitions=[
                    _answer(state, topic.topic, ask, request.replica_id, call)
                    for ask in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    state: BrokerState,
    topic: str,
    ask: OffsetForLeaderEpochRequestPartition,
    replica_id: int,
    call: Call,
) -> OffsetForLeaderEpochResponsePartition:
    try:
        require_describe(state, call.connection, replica_id, topic)
        partition = _partition(state, topic, ask.partition, replica_id)
        partition.check_epoch(ask.current_leader_epoch)
        partition.log.check_usable()
        epoch, end = partition.log.end_offset_for_epoch(ask.leader_epoch)
    except KafkaError as error:
        return OffsetForLeaderEpochResponsePartition(error_code=error.code, partition=ask.partition)
    return OffsetForLeaderEpochResponsePartition(
        partition=ask.partition, leader_epoch=epoch, end_offset=end
    )


def _partition(state: BrokerState, topic: str, index: int, replica_id: int) -> Partition:
    """The one that is led here; for a broker also one that is only held."""
    held = state.partitions.held(topic, index) if replica_id >= 0 else None
    return held or state.partitions.find(topic, index)


register(OffsetForLeaderEpochRequest, handle)
