"""Makes a function that writes a message from its declaration and a version.

A writer takes ``(value, out)`` and appends buffers to the list ``out``; the caller joins them, so
records are copied once, or not at all when the parts go to a socket one by one. Built once per
(class, version), like the readers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

from tallymark.errors import LocalProtocolError
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
from tallymark.protocol.varint import encode_uvarint

Writer: TypeAlias = Callable[[Any, list[Any]], None]
_Lengths: TypeAlias = Callable[[int], bytes]

# Compact lengths are the length plus one; nearly all are short.
_COMPACT = tuple(encode_uvarint(n + 1) for n in range(4096))


def struct_writer(cls: type[Struct], version: int, flexible: bool) -> Writer:
    """A writer of ``cls`` as ``version`` has it. Fields the version lacks are left out."""
    present = [field for field in wire_fields(cls) if field.present(version)]
    steps = _body_steps([field for field in present if field.tag is None], version, flexible)
    if flexible:
        steps.append(_tags_writer([field for field in present if field.tag is not None], version))

    def write(value: Any, out: list[Any]) -> None:
        for step in steps:
            step(value, out)

    return write


def _body_steps(fields: list[WireField], version: int, flexible: bool) -> list[Writer]:
    steps: list[Writer] = []
    run: list[WireField] = []
    for field in fields:
        if isinstance(field.kind, Fixed):
            run.append(field)
            continue
        if run:
            steps.append(_run_writer(run))
            run = []
        writer = _writer(field.kind, version, flexible, field.nullable(version), field.name)
        steps.append(_attribute_writer(field.name, writer))
    if run:
        steps.append(_run_writer(run))
    return steps


def _run_writer(run: list[WireField]) -> Writer:
    """One struct call for fields that follow one another."""
    pack = struct.Struct(">" + "".join(field.kind.code for field in run)).pack
    get: Any = attrgetter(*(field.name for field in run))

    def write_many(value: Any, out: list[Any]) -> None:
        out.append(pack(*get(value)))

    def write_one(value: Any, out: list[Any]) -> None:
        out.append(pack(get(value)))

    return write_many if len(run) > 1 else write_one


def _attribute_writer(name: str, writer: Writer) -> Writer:
    get: Any = attrgetter(name)

    def write(value: Any, out: list[Any]) -> None:
        writer(get(value), out)

    return write


def _tags_writer(fields: list[WireField], version: int) -> Writer:
    """The tag buffer: fields that differ from their default, by tag (KIP-482)."""
    writers = [
        (
            encode_uvarint(field.tag or 0),
            field.name,
            field.default,
            _writer(field.kind, version, True, field.nullable(version), field.name),
        )
        for field in sorted(fields, key=lambda field: field.tag or 0)
    ]

    def write(value: Any, out: list[Any]) -> None:
        place, count = len(out), 0
        out.append(b"\0")
        for tag, name, default, writer in writers:
            item = getattr(value, name)
            # Most often it is the default itself, and comparing structs takes time.
            if item is default or item == default:
                continue
            body: list[Any] = []
            writer(item, body)
            data = b"".join(body)
            out += (tag, encode_uvarint(len(data)), data)
            count += 1
        if count:
            out[place] = encode_uvarint(count)

    def write_empty(value: Any, out: list[Any]) -> None:
        out.append(b"\0")

    return write if writers else write_empty


def _writer(kind: Any, version: int, flexible: bool, nullable: bool, name: str) -> Writer:
    if isinstance(kind, Fixed):
        return _fixed_writer(kind)
    if kind is Uuid:
        return _write_uuid
    if kind is String:
        return _string_writer(flexible, nullable, name)
    if kind is Bytes or kind is Records:
        return _bytes_writer(flexible, nullable, name)
    if isinstance(kind, Array):
        return _array_writer(kind, version, flexible, nullable, name)
    write = struct_writer(kind, version, flexible)
    return _nullable_writer(write) if nullable else write


def _nullable_writer(write: Writer) -> Writer:
    """A struct that may be null has one byte before it: -1 for null, 1 for a struct."""

    def write_nullable(value: Any, out: list[Any]) -> None:
        if value is None:
            out.append(b"\xff")
            return
        out.append(b"\x01")
        write(value, out)

    return write_nullable


def _fixed_writer(kind: Fixed[Any]) -> Writer:
    pack = struct.Struct(">" + kind.code).pack

    def write(value: Any, out: list[Any]) -> None:
        out.append(pack(value))

    return write


def _write_uuid(value: Any, out: list[Any]) -> None:
    out.append(value.bytes)


def _string_writer(flexible: bool, nullable: bool, name: str) -> Writer:
    encode_length = _compact_length if flexible else struct.Struct(">h").pack
    null = _null("h", flexible, nullable, name)

    def write(value: str | None, out: list[Any]) -> None:
        if value is None:
            out.append(null())
            return
        data = value.encode()
        if len(data) > 0x7FFF:
            raise LocalProtocolError(f"{name} has {len(data)} bytes, a string holds 32767")
        out.append(encode_length(len(data)) + data)

    return write


def _bytes_writer(flexible: bool, nullable: bool, name: str) -> Writer:
    encode_length = _compact_length if flexible else struct.Struct(">i").pack
    null = _null("i", flexible, nullable, name)

    def write(value: Any, out: list[Any]) -> None:
        if value is None:
            out.append(null())
            return
        if isinstance(value, memoryview):
            value = value.cast("B")
        size = len(value) if isinstance(value, (bytes, bytearray, memoryview)) else value.size
        out.append(encode_length(size))
        out.append(value)

    return write


def _array_writer(
    kind: Array[Any], version: int, flexible: bool, nullable: bool, name: str
) -> Writer:
    encode_length = _compact_length if flexible else struct.Struct(">i").pack
    null = _null("i", flexible, nullable, name)
    if isinstance(kind.element, Fixed):
        return _fixed_array_writer(kind.element, encode_length, null)
    element = _writer(kind.element, version, flexible, False, name)

    def write(value: Any, out: list[Any]) -> None:
        if value is None:
            out.append(null())
            return
        out.append(encode_length(len(value)))
        for item in value:
            element(item, out)

    return write


def _fixed_array_writer(
    element: Fixed[Any], encode_length: _Lengths, null: Callable[[], bytes]
) -> Writer:
    def write(value: Any, out: list[Any]) -> None:
        if value is None:
            out.append(null())
            return
        out.append(encode_length(len(value)))
        out.append(struct.pack(f">{len(value)}{element.code}", *value))

    return write


def _compact_length(length: int) -> bytes:
    return _COMPACT[length] if length < len(_COMPACT) else encode_uvarint(length + 1)


def _null(code: str, flexible: bool, nullable: bool, name: str) -> Callable[[], bytes]:
    """The bytes of null, or an error where the version has no null."""
    form = b"\0" if flexible else struct.pack(">" + code, -1)

    def write() -> bytes:
        if not nullable:
            raise LocalProtocolError(f"{name} may not be null in this version")
        return form

    return write
