"""k02 ListOffsets: the first offset at or after a time, or one end of the log.

Served 1-9.

* v1 one offset a partition, with its timestamp (KIP-79)
* v2 isolation levels: the last stable offset is the high watermark, there are no transactions
* v4 leader epochs fence stale askers (KIP-320); the epoch of the offset found is told
* v6 flexible
* v7 -3, the offset of the largest timestamp (KIP-734)
* v8 -4, the earliest local offset (KIP-405): the log start offset, nothing is tiered
* v9 -5, the last tiered offset (KIP-1005): -1, nothing is tiered
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.handlers import Call, register
from tallymark.broker.partition import Partition
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def handle(state: BrokerState, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """Look every partition up by itself."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    _answer(state, topic.name, ask, call.version) for ask in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    state: BrokerState, topic: str, ask: ListOffsetsRequestPartition, version: int
) -> ListOffsetsResponsePartition:
    try:
        partition = state.partitions.find(topic, ask.partition_index)
        partition.check_epoch(ask.current_leader_epoch)
        offset, timestamp = _find(partition, ask.timestamp, version)
    except KafkaError as error:
        return ListOffsetsResponsePartition(
            partition_index=ask.partition_index, error_code=error.code
        )
    return ListOffsetsResponsePartition(
        partition_index=ask.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.epoch_at(offset),
    )


def _find(partition: Partition, timestamp: int, version: int) -> tuple[int, int]:
    """(offset, timestamp of the record there); -1 for what there is not."""
    if timestamp < 0 and version < _SINCE.get(timestamp, 10):
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"timestamp {timestamp}")
    if timestamp == LATEST:
        return partition.high_watermark, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.start_offset, -1
    if timestamp == LATEST_TIERED:
        return -1, -1
    found = (
        partition.log.max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else partition.log.offset_for_time(timestamp)
    )
    return (-1, -1) if found is None else found


register(ListOffsetsRequest, handle)
