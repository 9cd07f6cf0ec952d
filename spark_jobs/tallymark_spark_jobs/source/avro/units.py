"""Whether two schemas mean the same by their numbers.

Avro's schema resolution matches fields by name and looks at the types below: a field that was
written in milliseconds and is read in microseconds gives dates in 1970, and a decimal with another
scale gives another amount, without a word. Both are refused here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tallymark.serialization import AvroCodec, SerializationError

_NAMED: Final = ("record", "error", "enum", "fixed")


def check_units(writer: AvroCodec, reader: AvroCodec) -> None:
    """Raises SerializationError, with the field's name, where the units differ."""
    for where, ours, theirs in _Pairs(writer.known, reader.known).all(
        writer.parsed, reader.parsed, "the value"
    ):
        if ours != theirs:
            raise SerializationError(
                f"{where} was written as {ours} and is read as {theirs}; "
                "give the reader's schema the type that it was written with"
            )


class _Pairs:
    """All places of two schemas that resolution matches, with what each says of its numbers."""

    def __init__(self, writers: Mapping[str, Any], readers: Mapping[str, Any]) -> None:
        self._writers = writers
        self._readers = readers
        self._seen: set[tuple[str, str]] = set()

    def all(self, writer: Any, reader: Any, where: str) -> Iterator[tuple[str, str, str]]:
        for ours in _branches(writer, self._writers):
            for theirs in _branches(reader, self._readers):
                yield from self._one(ours, theirs, where)

    def _one(
        self, writer: Mapping[str, Any], reader: Mapping[str, Any], where: str
    ) -> Iterator[tuple[str, str, str]]:
        kind = writer["type"]
        if kind != reader["type"]:
            # A number may become a wider one, bytes a text: only their own kinds have units.
            if {kind, reader["type"]} <= {"int", "long", "float", "double"}:
                yield where, _unit(writer), _unit(reader)
            return
        if kind in _NAMED:
            names = (writer["name"], reader["name"])
            if names in self._seen:
                return
            self._seen.add(names)
        if kind in ("record", "error"):
            by_name = {
                name: field
                for field in reader["fields"]
                for name in (*field.get("aliases", ()), field["name"])
            }
            for field in writer["fields"]:
                if field["name"] in by_name:
                    other = by_name[field["name"]]
                    yield from self.all(field["type"], other["type"], f"the field {other['name']}")
        elif kind == "array":
            yield from self.all(writer["items"], reader["items"], where)
        elif kind == "map":
            yield from self.all(writer["values"], reader["values"], where)
        else:
            yield where, _unit(writer), _unit(reader)


def _branches(node: Any, known: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The types of a union, or the one type, as dicts."""
    if isinstance(node, list):
        for branch in node:
            yield from _branches(branch, known)
    elif isinstance(node, str):
        yield known.get(node, {"type": node})
    elif isinstance(node["type"], list | dict):
        yield from _branches(node["type"], known)
    else:
        yield node


def _unit(node: Mapping[str, Any]) -> str:
    logical = str(node.get("logicalType", ""))
    if logical == "decimal":
        return f"a decimal of scale {node.get('scale', 0)}"
    return logical if logical.rpartition("-")[2] in ("millis", "micros", "nanos") else "a number"
