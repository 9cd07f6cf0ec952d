"""Can a reader with one schema read what a writer wrote with another? (Avro, Schema Resolution.)

Our own walk rather than ``avro.compatibility``: that one compares an alias without a namespace by
its raw text, reads an alias given as text as a list of letters, and answers with sets of messages
that no longer say which message belongs to which place. Where both speak they agree; a test holds
it.

Rules as in Java's ``SchemaCompatibility``: int -> long -> float -> double and string <-> bytes are
promotions; named types match by their name without namespace, or by an alias of the reader; fields
by name or alias; a field the writer does not have needs a default; an enum may lack symbols only if
the reader's has a default. Logical types, docs and order play no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason. ``path`` is a JSON pointer into the reader's schema, ``info`` the culprit."""

    kind: str
    path: str
    text: str
    info: str


def incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Every reason why ``reader`` cannot read data of ``writer``; empty: it can."""
    try:
        return _Check(reader, writer).nodes(reader.root, writer.root, "")
    except RecursionError:
        text = "the schemas are nested too deeply to compare"
        return [Incompatibility("TOO_DEEP", "/", text, "")]


class _Check:
    """One comparison. Nodes are compared once a pair; a pair met again within itself holds."""

    def __init__(self, reader: Schema, writer: Schema) -> None:
        self.reader = reader
        self.writer = writer
        self.memo: dict[tuple[int, int], list[Incompatibility]] = {}

    def nodes(self, reader: Node, writer: Node, path: str) -> list[Incompatibility]:
        reader = self.reader.resolve(reader)
        writer = self.writer.resolve(writer)
        pair = (id(reader), id(writer))
        if pair not in self.memo:
            self.memo[pair] = []
            self.memo[pair] = self.compare(reader, writer, path)
        return self.memo[pair]

    def compare(self, reader: Node, writer: Node, path: str) -> list[Incompatibility]:
        if isinstance(writer, Union):
            return [
                found for branch in writer.branches for found in self.nodes(reader, branch, path)
            ]
        if isinstance(reader, Union):
            return self.union(reader, writer, path)
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            same = reader.kind == writer.kind
            if same or writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return []
        elif isinstance(reader, Array) and isinstance(writer, Array):
            return self.nodes(reader.items, writer.items, f"{path}/items")
        elif isinstance(reader, Map) and isinstance(writer, Map):
            return self.nodes(reader.values, writer.values, f"{path}/values")
        elif isinstance(reader, Enum) and isinstance(writer, Enum):
            return _name(reader, writer, path) + _symbols(reader, writer, path)
        elif isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _name(reader, writer, path) + _size(reader, writer, path)
        elif isinstance(reader, Record) and isinstance(writer, Record):
            return _name(reader, writer, path) + self.fields(reader, writer, path)
        text = f"the reader expects {_kind(reader)}, the writer wrote {_kind(writer)}"
        return [Incompatibility("TYPE_MISMATCH", path or "/", text, _kind(writer))]

    def union(self, reader: Union, writer: Node, path: str) -> list[Incompatibility]:
        if any(
            not self.nodes(branch, writer, f"{path}/{index}")
            for index, branch in enumerate(reader.branches)
        ):
            return []
        text = f"the reader's union has no branch that takes {_kind(writer)}"
        return [Incompatibility("MISSING_UNION_BRANCH", path or "/", text, _kind(writer))]

    def fields(self, reader: Record, writer: Record, path: str) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            names = [name for name in (field.name, *field.aliases) if name in written]
            if len(names) > 1:
                text = f"field {field.name} matches several of the writer's: {', '.join(names)}"
                found.append(Incompatibility("AMBIGUOUS_FIELD", place, text, field.name))
            elif names:
                found.extend(self.nodes(field.type, written[names[0]].type, f"{place}/type"))
            elif field.default is MISSING:
                found.append(_no_default(field, place))
        return found


def _no_default(field: Field, place: str) -> Incompatibility:
    text = f"the reader's field '{field.name}' has no default, and the writer does not have it"
    return Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", place, text, field.name)


def _name(reader: Named, writer: Named, path: str) -> list[Incompatibility]:
    if reader.name.simple == writer.name.simple or writer.name in reader.aliases:
        return []
    text = f"the reader's {reader.name.full} has no alias {writer.name.full}"
    return [Incompatibility("NAME_MISMATCH", f"{path}/name", text, writer.name.full)]


def _symbols(reader: Enum, writer: Enum, path: str) -> list[Incompatibility]:
    lacking = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not lacking or reader.default is not None:
        return []
    symbols = ", ".join(lacking)
    text = f"the reader's enum lacks {symbols} and has no default"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text, symbols)]


def _size(reader: Fixed, writer: Fixed, path: str) -> list[Incompatibility]:
    if reader.size == writer.size:
        return []
    text = f"the reader's fixed has {reader.size} bytes, the writer's {writer.size}"
    return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", text, str(writer.size))]


def _kind(node: Node) -> str:
    if isinstance(node, Primitive):
        return node.kind
    if isinstance(node, Record | Enum | Fixed):
        return f"{type(node).__name__.lower()} {node.name.full}"
    return type(node).__name__.lower()
