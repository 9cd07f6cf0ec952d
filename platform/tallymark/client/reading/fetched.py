"""What is asked of and answered by a simple consumer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tallymark.client.reading.message import Message
from tallymark.client.reading.message_batch import Headers, MessageBatch, messages, read_columns
from tallymark.errors import UserError
from tallymark.protocol.records.batch import Batch, BatchHeader, Record
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compression import DEFAULT_MAX_SIZE
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.topic_partition import EARLIEST as EARLIEST
from tallymark.protocol.topic_partition import LATEST as LATEST


class FetchSpec(NamedTuple):
    """Where to read on: the records of a partition from ``offset``. ``last_epoch`` is the leader
    epoch of the last record read before it (``Fetched.last_epoch``), -1 when not known; with it
    the position is checked against a log that was cut meanwhile (KIP-320)."""

    topic: str
    partition: int
    offset: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches from ``offset`` on (the first may begin before it).

    ``next_offset`` and ``last_epoch`` are what to ask with next. ``high_watermark`` is the offset
    behind the last record consumers may read, ``log_start_offset`` the first one there is (-1 when
    the broker did not say). ``last_stable_offset`` is where the first open transaction begins, else
    the high watermark (-1: not said). ``source`` is the address of the broker that answered.
    ``left_out`` are the batches that read_committed has left out, ``aborted`` their headers.
    ``topic_id`` is that of the topic that was asked for, zero where it is not known: a topic that
    was deleted and created again has the same name and offsets, and other records.

    There are three ways to the messages. Columns (:attr:`offsets`, :attr:`timestamps`,
    :meth:`keys`, :meth:`values`, :meth:`headers`) are the fastest, by far when not all of them are
    needed; iterating gives a :class:`~tallymark.client.reading.message.Message` each, decoding
    batch after batch; :meth:`records` is a list without topic and partition. All begin at
    ``offset``, without transaction markers, and raise CorruptMessageError for a batch that does not
    decode. Each batch is decompressed to 256 MiB at most. Columns and records hold those of the
    whole fetch at once: more than 256 MiB of several batches are a UserError, and iterating is the
    way to read them.
    """

    topic: str
    partition: int
    offset: int
    high_watermark: int
    log_start_offset: int
    batches: Sequence[Batch]
    next_offset: int
    last_epoch: int
    last_stable_offset: int = -1
    source: str = ""
    left_out: Sequence[Batch] = ()
    topic_id: UUID = ZERO_UUID
    _columns: list[MessageBatch] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def aborted(self) -> Sequence[BatchHeader]:
        """The headers of the batches that read_committed has left out."""
        return [batch.header for batch in self.left_out]

    @property
    def lag(self) -> int:
        """How many offsets there are behind what was fetched."""
        return max(0, self.high_watermark - self.next_offset)

    def columns(self) -> MessageBatch:
        """All messages as one batch, decoded once."""
        if not self._columns:
            parts = [
                (batch.header.partition_leader_epoch, columns) for batch, columns in self._all()
            ]
            self._columns.append(
                MessageBatch(self.topic, self.partition, parts, self.next_offset, self.last_epoch)
            )
        return self._columns[0]

    @property
    def offsets(self) -> Sequence[int]:
        """Offset of each message."""
        return self.columns().offsets

    @property
    def timestamps(self) -> list[int]:
        """Timestamp of each message, ms since the epoch, UTC."""
        return self.columns().timestamps

    def keys(self) -> list[bytes | None]:
        """Key of each message; None for null."""
        return self.columns().keys()

    def values(self) -> list[bytes | None]:
        """Value of each message; None for null."""
        return self.columns().values()

    def headers(self) -> list[Headers]:
        """Headers of each message: a tuple of (name, value)."""
        return self.columns().headers()

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches:
            header = batch.header
            if not header.is_control:  # no name for the columns: they go before the next ones come
                where = self.topic, self.partition, header.partition_leader_epoch
                yield from messages(*where, self._read(batch))

    def records(self) -> list[Record]:
        """The records one by one."""
        return [record for _, columns in self._all() for record in columns.records()]

    def _all(self) -> Iterator[tuple[Batch, RecordColumns]]:
        """Every batch with messages, unpacked; UserError before they hold too much together."""
        size = 0
        for batch in self.batches:
            if not batch.header.is_control:
                if size >= DEFAULT_MAX_SIZE:
                    raise UserError(
                        f"{self.topic}-{self.partition} from offset {self.offset} on: what was "
                        f"fetched holds more than {DEFAULT_MAX_SIZE >> 20} MiB when it is unpacked",
                        "iterate over it, or fetch fewer max_bytes",
                    )
                columns = self._read(batch)
                size += columns.size
                yield batch, columns

    def _read(self, batch: Batch) -> RecordColumns:
        return read_columns(self.topic, self.partition, batch, self.offset, self.source)
