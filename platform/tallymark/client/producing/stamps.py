"""The stamp: the sender of a record, and the number that the sender gave it.

Every record of an audited topic carries one header, ``tm``, about 17 bytes and the server's name::

    +---------+------------------+-------------------+-------------------+----------------+
    | version |     instance     |     partition     |     sequence      |     server     |
    |   u8    |     8 bytes      |      uvarint      |      uvarint      |  UTF-8, rest   |
    +---------+------------------+-------------------+-------------------+----------------+

``instance`` is one run of one producer (random; a forked child is a new one). The producer counts
0, 1, 2 ... per (topic, partition) after it has chosen the partition, so the records of one batch
are one range of sequences wherever they are seen. (instance, topic, partition, sequence) is the
record's identity: the ``partition`` is the one it was first written to, and neither retries nor
mirrors change it. The record's own timestamp says when.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

STAMP_HEADER: Final = "tm"
STAMP_VERSION: Final = 1
INSTANCE_BYTES: Final = 8
MAX_PARTITION: Final = 2**31 - 1
MAX_SEQUENCE: Final = 2**63 - 1
MAX_SERVER_BYTES: Final = 255

Malformed = Literal["malformed"]
MALFORMED: Final[Malformed] = "malformed"
"""What :func:`stamp_of` says of a ``tm`` header that is not a stamp."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identity of one record: 8 bytes of instance, origin partition, sequence, origin server."""

    instance: bytes
    partition: int
    sequence: int
    server: str


def encode_stamp(stamp: Stamp) -> bytes:
    """The bytes of the header. Raises ValueError for what the layout cannot hold."""
    if not 0 <= stamp.sequence <= MAX_SEQUENCE:
        raise ValueError(f"a sequence of {stamp.sequence} is not within 0 to 2**63 - 1")
    prefix, server = stamp_ends(stamp.instance, stamp.partition, stamp.server)
    return prefix + uvarint(stamp.sequence) + server


def stamp_ends(instance: bytes, partition: int, server: str) -> tuple[bytes, bytes]:
    """The bytes before and behind the sequence; the same for all records of a partition."""
    if len(instance) != INSTANCE_BYTES:
        raise ValueError(f"an instance has {INSTANCE_BYTES} bytes, not {len(instance)}")
    if not 0 <= partition <= MAX_PARTITION:
        raise ValueError(f"a partition of {partition} is not within 0 to 2**31 - 1")
    name = server.encode()
    if len(name) > MAX_SERVER_BYTES:
        raise ValueError(f"a server name has at most {MAX_SERVER_BYTES} bytes, not {len(name)}")
    return bytes((STAMP_VERSION,)) + instance + uvarint(partition), name


def decode_stamp(data: bytes | memoryview) -> Stamp | None:
    """The stamp in a ``tm`` header, or None when the bytes are not one: unknown version, cut
    short, a number in more bytes than it needs, a server that is not UTF-8 or too long."""
    raw = bytes(data)
    if len(raw) < 1 + INSTANCE_BYTES + 2 or raw[0] != STAMP_VERSION:
        return None
    partition, position = _read_uvarint(raw, 1 + INSTANCE_BYTES)
    sequence, position = _read_uvarint(raw, position)
    server = raw[position:]
    if not 0 <= partition <= MAX_PARTITION or not 0 <= sequence <= MAX_SEQUENCE:
        return None
    if len(server) > MAX_SERVER_BYTES:
        return None
    try:
        return Stamp(raw[1 : 1 + INSTANCE_BYTES], partition, sequence, server.decode())
    except UnicodeDecodeError:
        return None


def stamp_of(headers: Iterable[tuple[str, bytes | memoryview | None]]) -> Stamp | Malformed | None:
    """The stamp among a record's headers; None without one, MALFORMED when it is not readable.
    Of several ``tm`` headers the last counts, as Kafka's ``lastHeader`` has it."""
    found: Stamp | Malformed | None = None
    for name, value in headers:
        if name == STAMP_HEADER:
            found = (decode_stamp(value) if value is not None else None) or MALFORMED
    return found


def uvarint(value: int) -> bytes:
    """LEB128: seven bits a byte, low ones first; the high bit says that another byte follows."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    low = (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)
    return bytes(low) + uvarint(value >> 21)


def _read_uvarint(raw: bytes, position: int) -> tuple[int, int]:
    """(value, next position), or (-1, position) when it is cut short, longer than 9 bytes, or
    written in more bytes than it needs (one identity must have one form)."""
    if position < 0:
        return -1, position
    value = 0
    for index, byte in enumerate(raw[position : position + 9]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if byte == 0 and index:
                return -1, -1
            return value, position + index + 1
    return -1, -1
