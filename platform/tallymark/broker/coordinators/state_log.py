"""Records of a coordinator on disk: appends to a partition of its topic, and replays it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CorruptRecordError
from tallymark.log.log import Log
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches

_READ_BYTES: Final = 1024 * 1024
_BATCH_BYTES: Final = 256 * 1024
"""Records of one decision go into batches of about this size, well below the limit of a batch."""
_RECORD_OVERHEAD: Final = 40

log = logging.getLogger(__name__)

StateRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; None deletes."""


class Replays(Protocol):
    """A state that records describe. Only :meth:`replay` changes it."""

    def replay(self, record: StateRecord) -> None:
        """Apply one record, in log order. Raises CorruptRecordError and then changes nothing."""
        ...


S = TypeVar("S", bound=Replays)


def append_batch(
    partition: Partition,
    state: Replays,
    records: Sequence[StateRecord],
    wall_ms: int,
    acks: int = 1,
) -> int:
    """Append records as one batch, then replay them into ``state``; returns the offset after the
    last one. See :func:`batches_of`.

    Raises KafkaError, with ``acks`` -1 also where too few replicas are in sync; then neither log
    nor ``state`` has any of them.
    """
    batch = encode_batch([(key, value, (), wall_ms) for key, value in records])
    appended = partition.append(bytearray(batch), wall_ms, acks)
    for record in records:
        state.replay(record)
    return appended.last_offset + 1


def batches_of(records: Sequence[StateRecord]) -> Iterator[Sequence[StateRecord]]:
    """The records of one decision, in parts that each fit into a batch."""
    start = size = 0
    for at, (key, value) in enumerate(records):
        room = len(key) + len(value or b"") + _RECORD_OVERHEAD
        if at > start and size + room > _BATCH_BYTES:
            yield records[start:at]
            start, size = at, 0
        size += room
    if start < len(records):
        yield records[start:]


def replay_log(source: Log, state: S, wanted: Callable[[], bool] = lambda: True) -> S:
    """Replay a partition's whole log into ``state``, and return that. Also what is not committed:
    the leader's log is what all replicas will have. A record or batch that does not parse is logged
    and left out.

    Runs in a thread. It ends early when ``wanted`` says that the lead is lost: another broker's
    records may be in the log by then.
    """
    at = source.start_offset
    while at < source.end_offset and wanted():
        found = source.read(at, _READ_BYTES)
        batches = split_batches(found.read())
        for batch in batches:
            _replay_batch(state, batch)
        following = batches[-1].header.next_offset if batches else found.next_offset
        if following <= at:
            break
        at = following
    return state


def _replay_batch(state: Replays, batch: Batch) -> None:
    if batch.header.is_control:
        return
    try:
        # Only brokers write here, uncompressed; the size of any other batch is bounded, too.
        for record in batch.records(batch.usual_max_size):
            try:
                state.replay((bytes(record.key or b""), record.value))
            except CorruptRecordError as error:
                log.warning("a record is left out: offset=%d: %s", record.offset, error)
    except CorruptRecordError as error:
        log.warning("a batch is left out: offset=%d: %s", batch.header.base_offset, error)
