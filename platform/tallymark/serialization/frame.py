"""The frame around an Avro datum, as the whole ecosystem writes it::

┌──────────┬───────────────────────┬─────────────┐
│ 0x00     │ schema id             │ datum       │
│ 1 byte   │ 4 bytes, big-endian   │ the rest    │
└──────────┴───────────────────────┴─────────────┘
"""

from __future__ import annotations

import struct
from typing import Final

from tallymark.serialization.errors import SerializationError

MAGIC: Final = 0
HEADER_SIZE: Final = 5
_HEADER: Final = struct.Struct(">Bi")


def header(schema_id: int) -> bytes:
    """The five bytes before the datum."""
    return _HEADER.pack(MAGIC, schema_id)


def frame(schema_id: int, datum: bytes) -> bytes:
    return header(schema_id) + datum


def split_frame(data: bytes | bytearray | memoryview) -> tuple[int, memoryview]:
    """The schema's id and the datum. Raises SerializationError if it is no frame."""
    if len(data) < HEADER_SIZE:
        raise SerializationError(
            f"{len(data)} bytes are too few for an Avro message (magic and id)"
        )
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise SerializationError(f"an Avro message begins with byte 0, not {magic}")
    return schema_id, memoryview(data)[HEADER_SIZE:]
