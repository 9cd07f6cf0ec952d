"""Compresses a batch again with another codec, as a topic's ``compression.type`` other than
``producer`` asks. Pure.

The records stay as they are; only these fields change::

     8 batch length | 17 crc | 21 attributes, bits 0-2: codec | 61 records, compressed as one
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.protocol.schema import Buffer

_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LOW_ATTRIBUTES_AT: Final = 22
_CODEC: Final = 0x07
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")


def recompressed(
    data: Buffer, plain: Buffer, codec: str, level: int | None
) -> tuple[BatchHeader, bytearray]:
    """The batch ``data`` with its records, which are ``plain``, in ``codec`` (one of
    :data:`CODECS`), at ``level`` (None: the codec's default)."""
    payload = compress(codec, plain, level)
    batch = bytearray(memoryview(data)[:HEADER_SIZE])
    batch += payload
    _INT32.pack_into(batch, _LENGTH_AT, len(batch) - _LENGTH_AT - _INT32.size)
    batch[_LOW_ATTRIBUTES_AT] = batch[_LOW_ATTRIBUTES_AT] & ~_CODEC | CODECS.index(codec)
    _UINT32.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_CRC_FROM:]))
    return read_header(batch), batch
