"""k02 ListOffsets: the first offset at or after a time, or one end of the log.

Served 0-9.

* v0 several offsets, newest first, as in ``getOffsetsBefore`` of the 0.7 design: the first offsets
  of segments whose records are all at or before the time (-1: the end of the log as well)
* v1 one offset a partition, with its timestamp (KIP-79)
* v2 isolation levels: the last stable offset is the high watermark, there are no transactions
* v4 leader epochs fence stale clients (KIP-320); the response has the epoch of the offset
* v6 flexible
* v7 -3, the offset of the largest timestamp (KIP-734)
* v8 -4, the earliest local offset (KIP-405): the log start offset, nothing is tiered
* v9 -5, the last tiered offset (KIP-1005): -1, nothing is tiered

The ends of a log are answered at once. A lookup that may have to read an old segment's index or
single records runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final

from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tallymark.protocol.topic_partition import EARLIEST, LATEST

MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
_SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def handle(
    state: BrokerState, request: ListOffsetsRequest, call: Call
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up each partition by itself, in a thread where that may take long."""
    found = {
        id(ask): _partition(state, topic.name, ask, call)
        for topic in request.topics
        for ask in topic.partitions
    }
    if any(
        isinstance(partition := found[id(ask)], Partition)
        and _is_slow(partition, ask.timestamp, call.version)
        for topic in request.topics
        for ask in topic.partitions
    ):
        return asyncio.to_thread(_response, request, found, call.version)
    return _response(request, found, call.version)


def _partition(
    state: BrokerState, topic: str, ask: ListOffsetsRequestPartition, call: Call
) -> Partition | KafkaError:
    try:
        require(state.authorizer, call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = state.partitions.find(topic, ask.partition_index)
        partition.check_epoch(ask.current_leader_epoch)
        partition.log.check_usable()
    except KafkaError as error:
        return error
    return partition


def _is_slow(partition: Partition, timestamp: int, version: int) -> bool:
    if version == 0:
        return True
    if timestamp in (LATEST, LATEST_TIERED):
        return False
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # the first batch has the epoch
        return not partition.log.is_warm(partition.log.start_offset)
    return True


def _response(
    request: ListOffsetsRequest, found: Mapping[int, Partition | KafkaError], version: int
) -> ListOffsetsResponse:
    """The answer. Any thread may make it."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[_answer(found[id(ask)], ask, version) for ask in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    partition: Partition | KafkaError, ask: ListOffsetsRequestPartition, version: int
) -> ListOffsetsResponsePartition:
    try:
        if isinstance(partition, KafkaError):
            raise partition
        if version == 0:
            return _old_style(partition, ask)
        offset, timestamp = _find(partition, ask.timestamp, version)
        epoch = partition.epoch_at(offset)
    except KafkaError as error:
        return ListOffsetsResponsePartition(
            partition_index=ask.partition_index, error_code=error.code
        )
    return ListOffsetsResponsePartition(
        partition_index=ask.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _old_style(
    partition: Partition, ask: ListOffsetsRequestPartition
) -> ListOffsetsResponsePartition:
    if ask.timestamp < EARLIEST or ask.max_num_offsets < 0:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{ask.max_num_offsets} at {ask.timestamp}")
    found = partition.log.offsets_before(
        ask.timestamp, ask.max_num_offsets, partition.high_watermark
    )
    return ListOffsetsResponsePartition(
        partition_index=ask.partition_index, old_style_offsets=found
    )


def _find(partition: Partition, timestamp: int, version: int) -> tuple[int, int]:
    """(offset, timestamp of the record there); -1 for each that does not exist."""
    if timestamp < 0 and version < _SINCE.get(timestamp, 10):
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"timestamp {timestamp}")
    if timestamp == LATEST:
        return partition.high_watermark, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.start_offset, -1
    if timestamp == LATEST_TIERED:
        return -1, -1
    log, until = partition.log, partition.high_watermark
    found = (
        log.max_timestamp(until)
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_time(timestamp, until)
    )
    return (-1, -1) if found is None else found


register(ListOffsetsRequest, handle)
