"""Variable-length integers: seven bits a byte, low bits first, the high bit says "more".

Unsigned ones carry compact lengths (KIP-482). Signed ones, in records, are zigzag-mapped first
(0, -1, 1, -2 ... -> 0, 1, 2, 3 ...) so that small negative numbers stay short.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.schema import Buffer

MAX_UVARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10


def encode_uvarint(value: int) -> bytes:
    """Bytes of an unsigned varint, ``0 <= value < 2**64``."""
    if not 0 <= value < 1 << 64:
        raise LocalProtocolError(f"{value} does not fit an unsigned varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Bytes of a zigzag varint, ``-2**63 <= value < 2**63``."""
    return encode_uvarint((value << 1) ^ (value >> 63))


def decode_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned 32-bit varint at ``pos``: (value, position after it).

    Raises RemoteProtocolError when it is cut short or longer than five bytes.
    """
    value, pos = _decode(buf, pos, MAX_UVARINT_BYTES)
    if value >> 32:
        raise RemoteProtocolError(f"unsigned varint before byte {pos} exceeds 32 bits")
    return value, pos


def decode_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a zigzag varint of up to 64 bits at ``pos``: (value, position after it)."""
    value, pos = _decode(buf, pos, MAX_VARLONG_BYTES)
    if value >> 64:
        raise RemoteProtocolError(f"varint before byte {pos} exceeds 64 bits")
    return (value >> 1) ^ -(value & 1), pos


def _decode(buf: Buffer, pos: int, max_bytes: int) -> tuple[int, int]:
    value = shift = 0
    end = min(len(buf), pos + max_bytes)
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise RemoteProtocolError(f"varint before byte {pos} has no end")


TABLE_LIMIT: Final = 8192
VARINT: Final = tuple(encode_varint(n) for n in range(TABLE_LIMIT))
"""``VARINT[n]`` is the zigzag varint of n for 0 <= n < TABLE_LIMIT. Beyond, indexing raises
IndexError and the caller takes :func:`encode_varint`; below 0 the caller must not index."""
