"""Record batches, format v2 (magic 2), as they are sent and stored.

::

     0 base offset i64           offset of the first record
     8 batch length i32          bytes after this field: 49 and the records
    12 leader epoch i32          set by the leader
    16 magic i8                  2
    17 crc u32                   CRC-32C of everything after this field
    21 attributes i16            0-2 codec, 3 log append time, 4 transactional, 5 control, 6 horizon
    23 last offset delta i32     last offset - base offset
    27 base timestamp i64        timestamp of the first record, ms
    35 max timestamp i64         largest timestamp, ms
    43 producer id i64           -1 when not idempotent
    51 producer epoch i16
    53 base sequence i32         sequence number of the first record
    57 record count i32
    61 records, compressed as one

The CRC does not cover the first four fields, so that a broker puts a batch into its log without
changing the rest. The records themselves are read by :mod:`tallymark.protocol.records.columns` and
written by :mod:`tallymark.protocol.records.writer`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import crc32c

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compression import (
    CODECS,
    DEFAULT_MAX_SIZE,
    USUAL_MAX_SIZE,
    USUAL_RATIO,
    decompress,
    usual_max_size,
)
from tallymark.protocol.records.reader import Record
from tallymark.protocol.records.writer import (
    HEADER,
    BatchBuilder,
    Header,
    encode_batch,
)
from tallymark.protocol.schema import Buffer

__all__ = [
    "HEADER_SIZE",
    "Batch",
    "BatchBuilder",
    "BatchHeader",
    "Header",
    "Record",
    "RecordStretches",
    "encode_batch",
    "iterate_batches",
    "place_batch",
    "read_header",
    "split_batches",
]

HEADER_SIZE: Final = HEADER.size
_MAGIC: Final = 2
_OVERHEAD: Final = 12  # base offset and batch length
_CRC_FROM: Final = 21
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
"""The attribute of a batch that is part of a transaction."""
_CONTROL: Final = 0x20
_USUAL: Final = USUAL_MAX_SIZE // USUAL_RATIO
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; see the module for units."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return _OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record (compaction may have removed it)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> str:
        """Name of the codec of the records, one of :data:`compression.CODECS`."""
        return CODECS[self.attributes & _CODEC_MASK]

    @property
    def is_control(self) -> bool:
        """Whether it holds transaction markers, not records of a producer."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether all its records have the broker's time, ``max_timestamp``."""
        return bool(self.attributes & _LOG_APPEND_TIME)


# BatchHeader._make without its Python frame.
_make: Final[Callable[[tuple[Any, ...]], BatchHeader]] = partial(tuple.__new__, BatchHeader)


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at ``pos``. Raises CorruptRecordError when no batch can have it.

    The CRC is not checked, and the records need not be there.
    """
    if pos < 0 or len(buf) - pos < HEADER_SIZE:
        raise CorruptRecordError(f"no room for a batch header at byte {pos} of {len(buf)}")
    header = _make(HEADER.unpack_from(buf, pos))
    if header.magic != _MAGIC:
        raise CorruptRecordError(f"batch at byte {pos} has format {header.magic}, not {_MAGIC}")
    if (
        header.batch_length < HEADER_SIZE - _OVERHEAD
        or header.base_offset < 0
        or header.last_offset_delta < 0
        or not 0 <= header.record_count <= header.last_offset_delta + 1
    ):
        raise CorruptRecordError(f"batch at byte {pos} has an impossible header: {header}")
    codec = header.attributes & _CODEC_MASK
    if codec >= len(CODECS):
        known = ", ".join(CODECS)
        raise CorruptRecordError(f"batch at byte {pos} has the unknown codec {codec}, not {known}")
    return header


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: its header, and all its bytes (header included)."""

    header: BatchHeader
    data: memoryview

    @property
    def usual_max_size(self) -> int:
        """:func:`~tallymark.protocol.records.compression.usual_max_size` of this batch."""
        size = len(self.data)
        return USUAL_MAX_SIZE if size <= _USUAL else usual_max_size(size)

    def check_crc(self) -> None:
        """Raise CorruptRecordError unless the CRC fits the bytes."""
        crc = crc32c.crc32c(self.data[_CRC_FROM:])
        if crc != self.header.crc:
            raise CorruptRecordError(
                f"batch at offset {self.header.base_offset} has CRC {self.header.crc:#010x}, "
                f"its bytes {crc:#010x}"
            )

    def columns(self, max_size: int = DEFAULT_MAX_SIZE) -> RecordColumns:
        """The records as columns, decompressed to at most ``max_size`` bytes; markers too in a
        control batch.

        Raises CorruptRecordError when they are not exactly what the header says. Does not check
        the CRC.
        """
        header = self.header
        payload = self._payload(max_size)
        timestamp = header.max_timestamp if header.is_log_append_time else None
        columns = RecordColumns(
            payload, header.record_count, header.base_offset, header.base_timestamp, timestamp
        )
        offsets = columns.offsets
        if offsets and not (header.base_offset <= offsets[0] and offsets[-1] <= header.last_offset):
            raise _outside(header)
        return columns

    def stretches(self, max_size: int = DEFAULT_MAX_SIZE) -> RecordStretches:
        """The records some thousand at a time, for a caller that must not hold all of them at once:
        a batch of a megabyte may have ten million. May be iterated several times. Decompresses as
        :meth:`columns` does, and raises the same; errors in the records are raised while iterating.
        """
        return RecordStretches(self, self._payload(max_size))

    def records(self, max_size: int = DEFAULT_MAX_SIZE) -> list[Record]:
        """Like :meth:`columns`, as a list of records."""
        return self.columns(max_size).records()

    def _payload(self, max_size: int) -> bytes:
        header = self.header
        payload: Buffer = self.data[HEADER_SIZE:]
        if header.attributes & _CODEC_MASK:
            payload = decompress(header.codec, payload, max_size)
        return bytes(payload)  # not both until the records are read


def _outside(header: BatchHeader) -> CorruptRecordError:
    return CorruptRecordError(f"batch {header} has records with offsets outside of it")


class RecordStretches:
    """The records of a batch, :data:`~tallymark.protocol.records.columns.STRETCH` at a time. Each
    iteration starts at the first record. It raises CorruptRecordError where :meth:`Batch.columns`
    would, but after the correct records."""

    __slots__ = ("_batch", "_payload")

    def __init__(self, batch: Batch, payload: bytes) -> None:
        self._batch = batch
        self._payload = payload

    def __iter__(self) -> Iterator[RecordColumns]:
        header = self._batch.header
        timestamp = header.max_timestamp if header.is_log_append_time else None
        where = (header.record_count, header.base_offset, header.base_timestamp, timestamp)
        first, last = header.base_offset, header.last_offset
        for columns in RecordColumns.stretches(self._payload, *where):
            if not (first <= columns.offsets[0] and columns.offsets[-1] <= last):
                raise _outside(header)
            yield columns

    def records(self) -> Iterator[Record]:
        """The records one by one."""
        for columns in self:
            yield from columns.records()


def iterate_batches(buf: Buffer) -> Iterator[Batch]:
    """The batches in ``buf``, views of it. One that is cut at the end is left out: a fetch may cut
    its last batch. Raises CorruptRecordError at an impossible header."""
    view = memoryview(buf)
    pos, size = 0, len(view)
    while size - pos >= HEADER_SIZE:
        header = read_header(view, pos)
        end = pos + header.size
        if end > size:
            return
        yield Batch(header, view[pos:end])
        pos = end


def split_batches(buf: Buffer) -> list[Batch]:
    """All of :func:`iterate_batches`."""
    return list(iterate_batches(buf))


def place_batch(
    data: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int
) -> None:
    """Write the log offset and the leader epoch of the batch at ``pos``, in place; the CRC stays
    valid."""
    _OFFSET.pack_into(data, pos, base_offset)
    _EPOCH.pack_into(data, pos + 12, leader_epoch)
