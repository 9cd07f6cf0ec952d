"""Records of groups on disk: appends to a partition of ``__consumer_offsets``, and replays it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.groups.records import GroupRecord
from tallymark.groups.state import GroupsState
from tallymark.log.log import Log
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches

_READ_BYTES: Final = 1024 * 1024
_BATCH_BYTES: Final = 256 * 1024
"""Records of one decision go into batches of about this size, well below the limit of a batch."""
_RECORD_OVERHEAD: Final = 40

log = logging.getLogger(__name__)

_NOT_STORED: Final = {
    CODES["UNKNOWN_TOPIC_OR_PARTITION"]: CODES["COORDINATOR_NOT_AVAILABLE"],
    CODES["NOT_ENOUGH_REPLICAS"]: CODES["COORDINATOR_NOT_AVAILABLE"],
    CODES["NOT_LEADER_OR_FOLLOWER"]: CODES["NOT_COORDINATOR"],
    CODES["KAFKA_STORAGE_ERROR"]: CODES["NOT_COORDINATOR"],
    CODES["FENCED_LEADER_EPOCH"]: CODES["NOT_COORDINATOR"],
}


def refusal_of(error: KafkaError, too_large: str = "UNKNOWN_SERVER_ERROR") -> int:
    """The error code that a member gets when a record could not be appended. Clients of the
    coordinator do not expect the log's errors."""
    if error.code in (CODES["MESSAGE_TOO_LARGE"], CODES["RECORD_LIST_TOO_LARGE"]):
        return CODES[too_large]
    return _NOT_STORED.get(error.code, CODES["UNKNOWN_SERVER_ERROR"])


def append_records(
    partition: Partition, state: GroupsState, records: Sequence[GroupRecord], wall_ms: int
) -> None:
    """Append records, then replay them into ``state``. Raises KafkaError; then neither log nor
    ``state`` has the batches from the failed one on."""
    for chunk in _chunks(records):
        batch = encode_batch([(key, value, (), wall_ms) for key, value in chunk])
        partition.append(bytearray(batch), wall_ms)
        for record in chunk:
            state.replay(record)


def _chunks(records: Sequence[GroupRecord]) -> Iterator[Sequence[GroupRecord]]:
    start = size = 0
    for at, (key, value) in enumerate(records):
        room = len(key) + len(value or b"") + _RECORD_OVERHEAD
        if at > start and size + room > _BATCH_BYTES:
            yield records[start:at]
            start, size = at, 0
        size += room
    if start < len(records):
        yield records[start:]


def replay_log(source: Log) -> GroupsState:
    """The state that a partition of ``__consumer_offsets`` describes. Reads all of it; a record or
    batch that does not parse is logged and left out."""
    state = GroupsState()
    at = source.start_offset
    while at < source.end_offset:
        found = source.read(at, _READ_BYTES)
        batches = split_batches(found.read())
        for batch in batches:
            _replay_batch(state, batch)
        following = batches[-1].header.next_offset if batches else found.next_offset
        if following <= at:
            break
        at = following
    return state


def _replay_batch(state: GroupsState, batch: Batch) -> None:
    if batch.header.is_control:
        return
    try:
        # Only brokers write here, uncompressed; the size of any other batch is bounded, too.
        for record in batch.records(batch.usual_max_size):
            try:
                state.replay((bytes(record.key or b""), record.value))
            except CorruptRecordError as error:
                log.warning("a group record is left out: offset=%d: %s", record.offset, error)
    except CorruptRecordError as error:
        log.warning("a batch of groups is left out: offset=%d: %s", batch.header.base_offset, error)
