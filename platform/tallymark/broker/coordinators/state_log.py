"""Records of a coordinator on disk: appends to a partition of its topic, and replays it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from tallymark.broker.partitions.partition import Partition, TransactionCheck
from tallymark.errors import CorruptRecordError
from tallymark.groups.pending import NO_PRODUCER, Written
from tallymark.log.log import Log
from tallymark.log.producers.state import next_sequence
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.markers import marker_of

_READ_BYTES: Final = 32 * 1024
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


@runtime_checkable
class ReplaysTransactions(Protocol):
    """A state whose records may be of transactions, which markers end."""

    def replay(self, record: StateRecord, written: Written) -> None:
        """As :meth:`Replays.replay`."""
        ...

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a marker, in log order."""
        ...


S = TypeVar("S", bound=Replays)


class TransactionOf(NamedTuple):
    """The producer in whose transaction records are written. ``check`` is called right before that
    (:data:`~tallymark.broker.partitions.partition.TransactionCheck`)."""

    producer_id: int
    producer_epoch: int
    check: TransactionCheck


def append_batch(
    partition: Partition,
    state: Replays,
    records: Sequence[StateRecord],
    wall_ms: int,
    acks: int = 1,
    transaction: TransactionOf | None = None,
) -> int:
    """Append records as one batch, then replay them into ``state``; returns the offset after the
    last one. See :func:`batches_of`.

    Raises KafkaError, with ``acks`` -1 also where too few replicas are in sync; then neither log
    nor ``state`` has any of them.
    """
    timed = [(key, value, (), wall_ms) for key, value in records]
    check, producer = None, NO_PRODUCER
    if transaction is None:
        batch = encode_batch(timed)
    else:
        check, producer = transaction.check, transaction.producer_id
        batch = encode_batch(
            timed,
            producer_id=producer,
            producer_epoch=transaction.producer_epoch,
            base_sequence=_next_sequence(partition, transaction),
            transactional=True,
        )
    appended = partition.append(bytearray(batch), wall_ms, acks, check)
    apply = _applier(state, producer)
    for offset, record in enumerate(records, appended.first_offset):
        apply(record, offset)
    return appended.last_offset + 1


def _next_sequence(partition: Partition, transaction: TransactionOf) -> int:
    """The coordinator writes for the producer, which has no sequence of its own in this log."""
    entry = partition.log.producers.get(transaction.producer_id)
    if entry is None or entry.epoch != transaction.producer_epoch or not entry.batches:
        return 0
    return next_sequence(entry.batches[-1].last_sequence)


def _applier(state: Replays, producer_id: int) -> Callable[[StateRecord, int], None]:
    """Applies a record at an offset."""
    transactional = cast("object", state)
    if isinstance(transactional, ReplaysTransactions):
        apply = transactional.replay
        return lambda record, offset: apply(record, Written(offset, producer_id))
    return lambda record, _: state.replay(record)


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


def replay_log(
    source: Log,
    state: S,
    wanted: Callable[[], bool] = lambda: True,
    look: Callable[[], None] = lambda: None,
) -> S:
    """Replay a partition's whole log into ``state``, and return that. Also what is not committed:
    the leader's log is what all replicas will have. A record or batch that does not parse is logged
    and left out.

    Runs in a thread. It ends early when ``wanted`` says that the lead is lost: another broker's
    records may be in the log by then. ``look`` is called after each read and record
    (:meth:`~tallymark.broker.yielding.Slices.look`).
    """
    at = source.start_offset
    while at < source.end_offset and wanted():
        found = source.read(at, _READ_BYTES)
        batches = split_batches(found.read())
        look()
        for batch in batches:
            _replay_batch(state, batch, look)
        following = batches[-1].header.next_offset if batches else found.next_offset
        if following <= at:
            break
        at = following
    return state


def _replay_batch(state: Replays, batch: Batch, look: Callable[[], None]) -> None:
    header = batch.header
    try:
        if header.is_control:
            marker = marker_of(batch) if header.producer_id >= 0 else None
            if marker is not None and isinstance(state, ReplaysTransactions):
                state.end_transaction(header.producer_id, commit=marker.commit)
            return
        producer = header.producer_id if header.is_transactional else NO_PRODUCER
        apply = _applier(state, producer)
        # Only brokers write here, uncompressed; the size of any other batch is bounded, too.
        for record in batch.records(batch.usual_max_size):
            try:
                apply((bytes(record.key or b""), record.value), record.offset)
            except CorruptRecordError as error:
                log.warning("a record is left out: offset=%d: %s", record.offset, error)
            look()
    except CorruptRecordError as error:
        log.warning("a batch is left out: offset=%d: %s", header.base_offset, error)
