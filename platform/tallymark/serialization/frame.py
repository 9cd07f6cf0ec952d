"""Where a message says its schema, as the whole ecosystem writes it: in a frame around the datum,
or in a header of the record, which leaves the datum alone::

┌──────────┬───────────────────────┬─────────────┐
│ 0x00     │ schema id             │ datum       │
│ 1 byte   │ 4 bytes, big-endian   │ the rest    │
└──────────┴───────────────────────┴─────────────┘
    __value_schema_id or __key_schema_id
┌──────────┬───────────────────────┐
│ 0x01     │ schema guid           │     or as the first 5 bytes of the frame
│ 1 byte   │ 16 bytes              │
└──────────┴───────────────────────┘
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Final

from tallymark.serialization.errors import SerializationError

MAGIC: Final = 0
MAGIC_OF_GUID: Final = 1
HEADER_SIZE: Final = 5
_HEADER: Final = struct.Struct(">Bi")

RecordHeader = tuple[str, bytes | None]
VALUE_HEADER: Final = "__value_schema_id"
KEY_HEADER: Final = "__key_schema_id"


def header(schema_id: int) -> bytes:
    """The five bytes before the datum."""
    return _HEADER.pack(MAGIC, schema_id)


def frame(schema_id: int, datum: bytes) -> bytes:
    return header(schema_id) + datum


def split_frame(data: bytes | bytearray | memoryview) -> tuple[int, memoryview]:
    """The schema's id and the datum. Raises SerializationError if it is no frame."""
    return schema_before(data), memoryview(data)[HEADER_SIZE:]


def schema_before(data: bytes | bytearray | memoryview) -> int:
    """The schema's id, in the first five bytes. Raises SerializationError if it is no frame."""
    if len(data) < HEADER_SIZE:
        raise SerializationError(
            f"{len(data)} bytes are too few for an Avro message (magic and id)"
        )
    magic, schema_id = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise SerializationError(f"an Avro message begins with byte 0, not {magic}")
    return schema_id  # type: ignore[no-any-return]


def guid_header(guid: str, is_key: bool = False) -> tuple[str, bytes]:
    """The header of a record whose value (or key) has the schema with this guid."""
    name = KEY_HEADER if is_key else VALUE_HEADER
    return name, bytes((MAGIC_OF_GUID,)) + uuid.UUID(guid).bytes


def schema_in(headers: Iterable[RecordHeader], is_key: bool = False) -> int | str | None:
    """The schema's id or guid, None if no header says one. Raises SerializationError where a header
    should, and does not."""
    name = KEY_HEADER if is_key else VALUE_HEADER
    for key, value in headers:
        if key == name and value is not None:
            break
    else:
        return None
    if len(value) == HEADER_SIZE and value[0] == MAGIC:
        schema_id: int = _HEADER.unpack(value)[1]
        return schema_id
    if len(value) == 17 and value[0] == MAGIC_OF_GUID:
        return str(uuid.UUID(bytes=bytes(value[1:])))
    raise SerializationError(
        f"the header {name} is no id of a schema: {len(value)} bytes, {bytes(value[:17]).hex()}"
    )
