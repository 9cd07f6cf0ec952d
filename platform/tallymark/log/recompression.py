"""A batch compressed anew, records and header as they are: what a topic's ``compression.type``
other than ``producer`` asks for. Pure.

The records are neither counted nor looked at, only what stands around them changes::

     8 batch length | 17 crc | 21 attributes, bits 0-2: codec | 61 records, compressed as one
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from tallymark.protocol.compression import CODECS, compress, decompress
from tallymark.protocol.records import HEADER_SIZE, BatchHeader, read_header
from tallymark.protocol.schema import Buffer

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LOW_ATTRIBUTES_AT: Final = 22
_CODEC: Final = 0x07
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")


def recompressed(
    header: BatchHeader, data: Buffer, codec: str, level: int | None, most: int
) -> tuple[BatchHeader, bytearray]:
    """The batch with its records in ``codec`` (one of :data:`CODECS`), at ``level`` (None: the
    codec's default). Raises CorruptRecordError where they do not decompress, or to more than
    ``most`` bytes."""
    plain = decompress(header.codec, memoryview(data)[HEADER_SIZE:], most)
    payload = compress(codec, plain, level)
    batch = bytearray(memoryview(data)[:HEADER_SIZE])
    batch += payload
    _INT32.pack_into(batch, _LENGTH_AT, len(batch) - _LENGTH_AT - _INT32.size)
    batch[_LOW_ATTRIBUTES_AT] = batch[_LOW_ATTRIBUTES_AT] & ~_CODEC | CODECS.index(codec)
    _UINT32.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_CRC_FROM:]))
    return read_header(batch), batch
