"""k02 ListOffsets: the first offset at or after a time, or one end of the log.

Served 0-9.

* v0 several offsets, newest first, as in ``getOffsetsBefore`` of the 0.7 design: the first offsets
  of segments whose records are all at or before the time (-1: the end of the log as well)
* v1 one offset a partition, with its timestamp (KIP-79)
* v2 isolation levels (KIP-98): a reader of committed records gets what is below the last stable
  offset
* v4 leader epochs fence stale clients (KIP-320); the response has the epoch of the offset
* v5 OFFSET_NOT_AVAILABLE while a new leader does not know yet that the start of its epoch is
  committed: offsets would run backwards (KIP-207). Below it LEADER_NOT_AVAILABLE
* v6 flexible
* v7 -3, the offset of the largest timestamp (KIP-734)
* v8 -4, the earliest local offset (KIP-405): the log start offset, nothing is tiered
* v9 -5, the last tiered offset (KIP-1005): -1, nothing is tiered

A consumer gets what is below the high watermark. A request with a replica id, which needs
CLUSTER_ACTION, sees to the end of the log. The ends of a log are answered at once. A lookup that
may have to read an old segment's index or single records runs in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple

from tallymark.broker.partitions.lead import ReadUntil
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.cluster_action import require_describe
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
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
_FIRST_NOT_AVAILABLE: Final = 5
_BEFORE: Final = "LEADER_NOT_AVAILABLE"
_SINCE: Final = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


class _Readable(NamedTuple):
    """A partition, and where a read ends. That is taken once, on the event loop: it may move while
    a thread looks things up."""

    partition: Partition
    until: int


def handle(
    state: BrokerState, request: ListOffsetsRequest, call: Call
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up each partition by itself, in a thread where that may take long."""
    bound = ReadUntil.of(request.replica_id, request.isolation_level)
    found = {
        id(ask): _partition(state, topic.name, ask, request.replica_id, bound, call)
        for topic in request.topics
        for ask in topic.partitions
    }
    if any(
        isinstance(readable := found[id(ask)], _Readable)
        and _is_slow(readable.partition, ask.timestamp, call.version)
        for topic in request.topics
        for ask in topic.partitions
    ):
        return asyncio.to_thread(_response, request, found, call.version, bound)
    return _response(request, found, call.version, bound)


def _partition(
    state: BrokerState,
    topic: str,
    ask: ListOffsetsRequestPartition,
    replica_id: int,
    bound: ReadUntil,
    call: Call,
) -> _Readable | KafkaError:
    try:
        require_describe(state, call.connection, replica_id, topic)
        partition = state.partitions.find(topic, ask.partition_index)
        partition.check_epoch(ask.current_leader_epoch)
        partition.log.check_usable()
    except KafkaError as error:
        return error
    return _Readable(partition, partition.until(bound))


def _is_slow(partition: Partition, timestamp: int, version: int) -> bool:
    if version == 0:
        return True
    if timestamp in (LATEST, LATEST_TIERED):
        return False
    if timestamp in (EARLIEST, EARLIEST_LOCAL):  # the first batch has the epoch
        return not partition.log.is_warm(partition.log.start_offset)
    return True


def _response(
    request: ListOffsetsRequest,
    found: Mapping[int, _Readable | KafkaError],
    version: int,
    bound: ReadUntil,
) -> ListOffsetsResponse:
    """The answer. Any thread may make it."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    _answer(found[id(ask)], ask, version, bound) for ask in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    readable: _Readable | KafkaError,
    ask: ListOffsetsRequestPartition,
    version: int,
    bound: ReadUntil,
) -> ListOffsetsResponsePartition:
    try:
        if isinstance(readable, KafkaError):
            raise readable
        if version == 0:
            return _old_style(readable, ask, bound)
        offset, timestamp = _find(readable, ask.timestamp, version, bound)
        epoch = readable.partition.epoch_at(offset, readable.until)
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
    readable: _Readable, ask: ListOffsetsRequestPartition, bound: ReadUntil
) -> ListOffsetsResponsePartition:
    partition, until = readable
    if ask.timestamp < EARLIEST or ask.max_num_offsets < 0:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{ask.max_num_offsets} at {ask.timestamp}")
    if ask.timestamp != EARLIEST:
        _check_committed(partition, 0, bound)
    found = partition.log.offsets_before(ask.timestamp, ask.max_num_offsets, until)
    return ListOffsetsResponsePartition(
        partition_index=ask.partition_index, old_style_offsets=found
    )


def _find(readable: _Readable, timestamp: int, version: int, bound: ReadUntil) -> tuple[int, int]:
    """(offset, timestamp of the record there); -1 for each that does not exist."""
    if timestamp < 0 and version < _SINCE.get(timestamp, 10):
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"timestamp {timestamp}")
    partition, until = readable
    log = partition.log
    if timestamp == LATEST:
        _check_committed(partition, version, bound)
        return until, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if timestamp == LATEST_TIERED:
        return -1, -1
    found = (
        log.max_timestamp(until)
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_time(timestamp, until)
    )
    if found is None:
        _check_committed(partition, version, bound)
        return -1, -1
    return found


def _check_committed(partition: Partition, version: int, bound: ReadUntil) -> None:
    """Raise the error of a leader that may not know yet of all that is committed (KIP-207).
    What it knows of is committed, so offsets below that may be sent."""
    if bound is ReadUntil.END or partition.lead is None or partition.lead.is_epoch_committed:
        return
    code = CODES["OFFSET_NOT_AVAILABLE" if version >= _FIRST_NOT_AVAILABLE else _BEFORE]
    raise KafkaError(code, f"{partition}: the start of its epoch is not committed yet")


register(ListOffsetsRequest, handle)
