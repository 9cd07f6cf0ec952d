"""Lengths, strings and tags as :mod:`~tallymark.protocol.wire.produce` and
:mod:`~tallymark.protocol.wire.fetch` read them: classic (KIP-482 calls them so) and compact.

All raise RemoteProtocolError, IndexError or struct.error for bytes that cannot be.
"""

from __future__ import annotations

import struct
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.varint import decode_uvarint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def compact_length(body: memoryview, pos: int, unit: int = 1, lowest: int = 0) -> tuple[int, int]:
    """(length, position after it) of what takes ``unit`` bytes at least each; -1 is null."""
    length = body[pos]
    if length < 0x80:
        pos += 1
    else:
        length, pos = decode_uvarint(body, pos)
    length -= 1
    if lowest <= length and length * unit <= len(body) - pos:
        return length, pos
    raise RemoteProtocolError(f"byte {pos}: a length of {length}")


def classic_length(body: memoryview, pos: int, unit: int = 1, lowest: int = 0) -> tuple[int, int]:
    """The same, as four bytes."""
    length: int = _INT32.unpack_from(body, pos)[0]
    pos += 4
    if lowest <= length and length * unit <= len(body) - pos:
        return length, pos
    raise RemoteProtocolError(f"byte {pos}: a length of {length}")


def read_string(body: memoryview, pos: int, flexible: bool) -> tuple[str, int]:
    """A string that may not be null."""
    text, pos = read_nullable_string(body, pos, flexible)
    if text is None:
        raise RemoteProtocolError(f"byte {pos}: a string may not be null")
    return text, pos


def read_nullable_string(body: memoryview, pos: int, flexible: bool) -> tuple[str | None, int]:
    """A string, or None."""
    if flexible:
        length, pos = compact_length(body, pos, lowest=-1)
    else:
        length = _INT16.unpack_from(body, pos)[0]
        pos += 2
        if not -1 <= length <= len(body) - pos:
            raise RemoteProtocolError(f"byte {pos}: a string of length {length}")
    if length < 0:
        return None, pos
    return str(body[pos : pos + length], "utf-8"), pos + length


def read_tags(body: memoryview, pos: int) -> tuple[dict[int, memoryview], int]:
    """The tagged fields as bytes, and the position after them. RemoteProtocolError for a tag that
    is cut, or out of order."""
    found: dict[int, memoryview] = {}
    last = -1
    count, pos = decode_uvarint(body, pos)
    for _ in range(count):
        tag, pos = decode_uvarint(body, pos)
        size, pos = decode_uvarint(body, pos)
        if tag <= last or pos + size > len(body):
            raise RemoteProtocolError(f"byte {pos}: tagged field {tag} is cut or out of order")
        found[tag] = body[pos : pos + size]
        last = tag
        pos += size
    return found, pos


def skip_tags(body: memoryview, pos: int) -> int:
    """The position after a tag buffer."""
    if body[pos] == 0:
        return pos + 1
    count, pos = decode_uvarint(body, pos)
    for _ in range(count):
        _, pos = decode_uvarint(body, pos)
        size, pos = decode_uvarint(body, pos)
        pos += size
        if pos > len(body):
            raise RemoteProtocolError("a tagged field is cut short")
    return pos
