"""From the bytes of a fetch to the headers of its batches: the loop that is compiled."""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_FIELDS,
    BREAK,
    BREAK_AT,
    COUNT,
    CRC,
    END,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    NEXT,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    ROW,
    ROWS,
    SCRATCH,
    START,
    WHOLE,
)
from tallymark.protocol.records.compiled.primitives import MOST, integer

_BATCH_HEADER: Final = 61
_OVERHEAD: Final = 12  # base offset and batch length
_MAGIC: Final = 2
_CODEC_MASK: Final = 0x07
_CODECS: Final = 5


def find_batches(data: Any, pos: int, batches: Any) -> int:
    """The headers of the batches from ``pos`` on, written to ``batches`` until that is full: how
    many there are; -1 for a table that is too narrow. Ends at a batch that is cut, as
    :func:`tallymark.protocol.records.batch.iterate_batches` does, and at an impossible header,
    which that refuses."""
    size = len(data)
    if batches.shape[1] < BATCH_FIELDS or pos < 0:
        return -1
    number_of_batches: int = batches.shape[0]
    for number in range(number_of_batches):
        if size - pos < _BATCH_HEADER:
            return number
        base_offset = integer(data, pos, 8)
        length = integer(data, pos + 8, 4)
        attributes = integer(data, pos + 21, 2)
        last_delta = integer(data, pos + 23, 4)
        count = integer(data, pos + 57, 4)
        if (
            data[pos + 16] != _MAGIC
            or length < _BATCH_HEADER - _OVERHEAD
            or length > size - pos - _OVERHEAD
            or base_offset < 0
            or last_delta < 0
            or base_offset > MOST - last_delta - 1
            or count < 0
            or count > last_delta + 1
            or attributes & _CODEC_MASK >= _CODECS
        ):
            return number
        batches[number, START] = pos + _BATCH_HEADER
        batches[number, END] = pos + _OVERHEAD + length
        batches[number, SCRATCH] = 0
        batches[number, COUNT] = count
        batches[number, BASE_OFFSET] = base_offset
        batches[number, LAST_OFFSET] = base_offset + last_delta
        batches[number, BASE_TIMESTAMP] = integer(data, pos + 27, 8)
        batches[number, MAX_TIMESTAMP] = integer(data, pos + 35, 8)
        batches[number, ATTRIBUTES] = attributes
        batches[number, POSITION] = pos
        batches[number, NEXT] = pos + _OVERHEAD + length
        batches[number, CRC] = integer(data, pos + 17, 4) & 0xFFFF_FFFF
        batches[number, LEADER_EPOCH] = integer(data, pos + 12, 4)
        batches[number, PRODUCER_ID] = integer(data, pos + 43, 8)
        batches[number, PRODUCER_EPOCH] = integer(data, pos + 51, 2)
        batches[number, BASE_SEQUENCE] = integer(data, pos + 53, 4)
        batches[number, ROW] = 0
        batches[number, ROWS] = 0
        batches[number, BREAK] = WHOLE
        batches[number, BREAK_AT] = -1
        pos += _OVERHEAD + length
    return number_of_batches
