"""Makes a function that reads a message from its declaration and a version.

A reader takes ``(buf, pos)`` and returns ``(value, position after it)``. Readers are built once
per (class, version) and keep no state. Adjacent fields of fixed size become one ``struct`` call.

Readers may raise IndexError, struct.error or UnicodeDecodeError on short or bad bytes;
:func:`tallymark.protocol.codec.decode` turns them into RemoteProtocolError. They never allocate
for a count or a length that the remaining bytes cannot hold.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.schema import (
    Array,
    Bytes,
    Fixed,
    Records,
    String,
    Struct,
    Uuid,
    WireField,
    wire_fields,
)
from tallymark.protocol.varint import decode_uvarint

UNBOUNDED: Final = 2**31
MOST_IN_REQUEST: Final = 100_000
"""Elements of one array of a request."""
_NEGATIVE: Final = 0x80

Reader: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
_Step: TypeAlias = Callable[[memoryview, int, list[Any]], int]


def struct_reader(cls: type[Struct], version: int, flexible: bool, most: int = UNBOUNDED) -> Reader:
    """A reader of ``cls`` as ``version`` writes it. Absent fields take their defaults. An array of
    structs may have ``most`` elements: each is an object, some dozen times as large as its bytes.
    """
    fields = list(wire_fields(cls))
    template = [field.default for field in fields]
    present = [field for field in fields if field.present(version)]
    steps = _body_steps([field for field in present if field.tag is None], version, flexible, most)
    if flexible:
        steps.append(
            _tags_step([field for field in present if field.tag is not None], version, most)
        )

    def read(buf: memoryview, pos: int) -> tuple[Any, int]:
        values = template.copy()
        for step in steps:
            pos = step(buf, pos, values)
        return cls(*values), pos

    return read


def _body_steps(fields: list[WireField], version: int, flexible: bool, most: int) -> list[_Step]:
    steps: list[_Step] = []
    run: list[WireField] = []
    for field in fields:
        if run and not (isinstance(field.kind, Fixed) and field.index == run[-1].index + 1):
            steps.append(_run_step(run))
            run = []
        if isinstance(field.kind, Fixed):
            run.append(field)
        else:
            reader = _reader(field.kind, version, flexible, field.nullable(version), most)
            steps.append(_value_step(field.index, reader))
    if run:
        steps.append(_run_step(run))
    return steps


def _run_step(run: list[WireField]) -> _Step:
    """One struct call for adjacent fields."""
    layout = struct.Struct(">" + "".join(field.kind.code for field in run))
    unpack, size = layout.unpack_from, layout.size
    first, stop = run[0].index, run[-1].index + 1

    def step(buf: memoryview, pos: int, values: list[Any]) -> int:
        values[first:stop] = unpack(buf, pos)
        return pos + size

    return step


def _value_step(index: int, reader: Reader) -> _Step:
    def step(buf: memoryview, pos: int, values: list[Any]) -> int:
        values[index], pos = reader(buf, pos)
        return pos

    return step


def _tags_step(fields: list[WireField], version: int, most: int) -> _Step:
    """The tag buffer: uvarint count, then (uvarint tag, uvarint size, bytes) each (KIP-482)."""
    known = {
        field.tag: (field.index, _reader(field.kind, version, True, field.nullable(version), most))
        for field in fields
    }

    def step(buf: memoryview, pos: int, values: list[Any]) -> int:
        count = buf[pos]
        if not count:
            return pos + 1
        count, pos = decode_uvarint(buf, pos)
        for _ in range(count):
            tag, pos = decode_uvarint(buf, pos)
            size, pos = decode_uvarint(buf, pos)
            end = pos + size
            if end > len(buf):
                raise RemoteProtocolError(f"tagged field {tag} is cut short")
            if tag in known:
                index, reader = known[tag]
                values[index], pos = reader(buf, pos)
                if pos != end:
                    raise RemoteProtocolError(f"tagged field {tag} does not fill its size {size}")
            pos = end
        return pos

    return step


def _reader(kind: Any, version: int, flexible: bool, nullable: bool, most: int) -> Reader:
    if isinstance(kind, Fixed):
        return _fixed_reader(kind)
    if kind is Uuid:
        return read_uuid
    if kind is String:
        return _string_reader(flexible, nullable)
    if kind is Bytes or kind is Records:
        return _bytes_reader(flexible, nullable)
    if isinstance(kind, Array):
        return _array_reader(kind, version, flexible, nullable, most)
    read = struct_reader(kind, version, flexible, most)
    return _nullable_reader(read) if nullable else read


def _nullable_reader(read: Reader) -> Reader:
    """A struct that may be null has one byte before it: -1 for null, 1 for a struct."""

    def read_nullable(buf: memoryview, pos: int) -> tuple[Any, int]:
        null = buf[pos] >= _NEGATIVE
        return (None, pos + 1) if null else read(buf, pos + 1)

    return read_nullable


def _fixed_reader(kind: Fixed[Any]) -> Reader:
    layout = struct.Struct(">" + kind.code)
    unpack, size = layout.unpack_from, layout.size

    def read(buf: memoryview, pos: int) -> tuple[Any, int]:
        return unpack(buf, pos)[0], pos + size

    return read


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> uuid.UUID:
    # Building a UUID costs ten times its look-up, and every request has a topic's id.
    return uuid.UUID(bytes=raw)


def read_uuid(buf: memoryview, pos: int) -> tuple[uuid.UUID, int]:
    """(uuid, position after it)."""
    end = pos + 16
    if end > len(buf):
        raise RemoteProtocolError("uuid is cut short")
    return _uuid(bytes(buf[pos:end])), end


def _string_reader(flexible: bool, nullable: bool) -> Reader:
    read_length = _length_reader("h", flexible, nullable, "string")

    def read(buf: memoryview, pos: int) -> tuple[str | None, int]:
        length, pos = read_length(buf, pos)
        if length < 0:
            return None, pos
        end = pos + length
        return str(buf[pos:end], "utf-8"), end

    return read


def _bytes_reader(flexible: bool, nullable: bool) -> Reader:
    read_length = _length_reader("i", flexible, nullable, "bytes")

    def read(buf: memoryview, pos: int) -> tuple[memoryview | None, int]:
        length, pos = read_length(buf, pos)
        if length < 0:
            return None, pos
        end = pos + length
        return buf[pos:end], end

    return read


def _array_reader(
    kind: Array[Any], version: int, flexible: bool, nullable: bool, most: int
) -> Reader:
    size = minimum_size(kind.element, version, flexible)
    read_length = _length_reader("i", flexible, nullable, "array", size)
    if isinstance(kind.element, Fixed):
        return _fixed_array_reader(kind.element, read_length)
    element = _reader(kind.element, version, flexible, False, most)

    def read(buf: memoryview, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        count, pos = read_length(buf, pos)
        if count < 0:
            return None, pos
        if count > most:
            raise RemoteProtocolError(f"{count} elements at byte {pos}, {most} are allowed")
        values: list[Any] = []
        append = values.append
        for _ in range(count):
            value, pos = element(buf, pos)
            append(value)
        return tuple(values), pos

    return read


def _fixed_array_reader(element: Fixed[Any], read_length: Reader) -> Reader:
    size = struct.calcsize(">" + element.code)

    def read(buf: memoryview, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        count, pos = read_length(buf, pos)
        if count < 0:
            return None, pos
        return struct.unpack_from(f">{count}{element.code}", buf, pos), pos + count * size

    return read


def _length_reader(
    code: str, flexible: bool, nullable: bool, what: str, unit: int = 1
) -> Callable[[memoryview, int], tuple[int, int]]:
    """A reader of a length: -1 stands for null. ``unit`` bytes at least follow for each one."""
    layout = struct.Struct(">" + code)
    unpack, size = layout.unpack_from, layout.size
    lowest = -1 if nullable else 0

    def read_classic(buf: memoryview, pos: int) -> tuple[int, int]:
        length = unpack(buf, pos)[0]
        pos += size
        if lowest <= length and length * unit <= len(buf) - pos:
            return length, pos
        raise _bad_length(what, length, pos)

    def read_compact(buf: memoryview, pos: int) -> tuple[int, int]:
        length = buf[pos]
        if length < 0x80:
            pos += 1
        else:
            length, pos = decode_uvarint(buf, pos)
        length -= 1
        if lowest <= length and length * unit <= len(buf) - pos:
            return length, pos
        raise _bad_length(what, length, pos)

    return read_compact if flexible else read_classic


def _bad_length(what: str, length: int, pos: int) -> RemoteProtocolError:
    return RemoteProtocolError(f"{what} at byte {pos} may not be of length {length}")


def minimum_size(kind: Any, version: int, flexible: bool) -> int:
    """The least bytes a value takes, at least 1: what bounds an array's count."""
    if isinstance(kind, Fixed):
        return struct.calcsize(">" + kind.code)
    if kind is Uuid:
        return 16
    if kind is String:
        return 1 if flexible else 2
    if isinstance(kind, type):
        sizes = [
            minimum_size(field.kind, version, flexible)
            for field in wire_fields(kind)
            if field.present(version) and field.tag is None
        ]
        return max(1, sum(sizes) + flexible)
    return 1 if flexible else 4
