"""Message sets of the formats before batches (magic 0 and 1), for reading old logs.

::

     0 offset i64
     8 size i32              bytes after this field
    12 crc u32               CRC-32 (not CRC-32C) of everything after this field
    16 magic i8              0 or 1; where a batch has its own, so formats may be mixed
    17 attributes i8         0-2 codec, 3 log append time
    18 timestamp i64         magic 1 only
     . key length i32, key, value length i32, value

A compressed message holds a message set as its value and has the offset of the last message in it;
inside, magic 1 counts offsets from 0 and magic 0 repeats the absolute ones.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import Batch, BatchHeader, read_header
from tallymark.protocol.records.compression import CODECS, DEFAULT_MAX_SIZE, decompress
from tallymark.protocol.records.reader import Record
from tallymark.protocol.schema import Buffer

_HEAD: Final = struct.Struct(">qiIbb")
_OVERHEAD: Final = 12
_CRC_FROM: Final = 16
_MAGIC_AT: Final = 16
_SMALLEST: Final = {0: 26, 1: 34}
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08


@dataclass(frozen=True, slots=True)
class LegacyBatch(Batch):
    """One message of magic 0 or 1, plain or a compressed set, in the shape of a batch.

    Its header has what there is: magic, attributes, timestamp, and the last offset as both ends.
    """

    def check_crc(self) -> None:
        """Raise CorruptRecordError unless the CRC fits the bytes."""
        if zlib.crc32(self.data[_CRC_FROM:]) != self.header.crc:
            raise CorruptRecordError(f"message at offset {self.header.base_offset} fails its CRC")

    def records(self, max_size: int = DEFAULT_MAX_SIZE) -> list[Record]:
        """The records, decompressed to at most ``max_size`` bytes; timestamps of magic 0 are -1.

        Raises CorruptRecordError for bad bytes.
        """
        header = self.header
        outer = _record(self)
        if header.codec == "none":
            return [outer]
        inner = [_record(batch) for batch in _inner(self, outer, max_size)]
        if header.magic == 1 and inner:
            # The set's own offset is that of its last message, whatever compaction removed.
            first = header.base_offset - inner[-1].offset
            inner = [record._replace(offset=first + record.offset) for record in inner]
        if header.is_log_append_time:
            inner = [record._replace(timestamp=header.max_timestamp) for record in inner]
        return inner


def split_any(buf: Buffer) -> list[Batch]:
    """Like :func:`~tallymark.protocol.records.batch.split_batches`, for all three formats, which
    may be mixed."""
    view = memoryview(buf)
    batches: list[Batch] = []
    pos, size = 0, len(view)
    while size - pos > _MAGIC_AT:
        batch = _read(view, pos)
        if batch is None:
            break
        batches.append(batch)
        pos += batch.header.size
    return batches


def _read(view: memoryview, pos: int) -> Batch | None:
    """The batch at ``pos``, or None when it is cut."""
    if view[pos + _MAGIC_AT] not in _SMALLEST:
        if len(view) - pos < 61:
            return None
        header = read_header(view, pos)
        end = pos + header.size
        return Batch(header, view[pos:end]) if end <= len(view) else None
    if len(view) - pos < _HEAD.size:
        return None
    offset, size, crc, magic, attributes = _HEAD.unpack_from(view, pos)
    if size < _SMALLEST[magic] - _OVERHEAD or attributes & _CODEC_MASK >= CODECS.index("zstd"):
        raise CorruptRecordError(f"message at byte {pos} has an impossible header")
    end = pos + _OVERHEAD + size
    if end > len(view):
        return None
    timestamp = _TIMESTAMP.unpack_from(view, pos + _HEAD.size)[0] if magic else -1
    header = BatchHeader(
        base_offset=offset,
        batch_length=size,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes & (_CODEC_MASK | _LOG_APPEND_TIME),
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    return LegacyBatch(header, view[pos:end])


def _record(batch: Batch) -> Record:
    """The message itself, its value still compressed."""
    data, header = batch.data, batch.header
    pos = _HEAD.size + (_TIMESTAMP.size if header.magic else 0)
    key, pos = _bytes(data, pos)
    value, pos = _bytes(data, pos)
    if pos != len(data):
        raise CorruptRecordError(f"message at offset {header.base_offset} has spare bytes")
    return Record(header.base_offset, header.max_timestamp, key, value, ())


def _bytes(data: memoryview, pos: int) -> tuple[bytes | None, int]:
    if len(data) - pos < _LENGTH.size:
        raise CorruptRecordError("a message is cut short")
    (length,) = _LENGTH.unpack_from(data, pos)
    pos += _LENGTH.size
    if length == -1:
        return None, pos
    if not 0 <= length <= len(data) - pos:
        raise CorruptRecordError(f"a message has a length of {length}")
    return bytes(data[pos : pos + length]), pos + length


def _inner(batch: LegacyBatch, outer: Record, max_size: int) -> list[Batch]:
    """The messages of a compressed set; one inside another was never allowed."""
    batches = split_any(decompress(batch.header.codec, outer.value or b"", max_size))
    if any(inner.header.magic > 1 or inner.header.codec != "none" for inner in batches):
        raise CorruptRecordError(f"compressed set at offset {outer.offset} holds another one")
    return batches
