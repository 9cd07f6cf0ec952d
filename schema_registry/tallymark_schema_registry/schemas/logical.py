"""Logical types: what a value means (a date, a decimal), beside how it is written.

The rules of compatibility do not look at them: 12.50 written with scale 2 and read with scale 3 is
1.250, and no check refuses it. :func:`logical_changes` reports such changes, for warnings, and for
a policy that refuses them.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tallymark_schema_registry.schemas.budget import NODE, Budget, TooLargeError
from tallymark_schema_registry.schemas.compatibility import MAX_REASONS, Incompatibility
from tallymark_schema_registry.schemas.matching import (
    PROMOTIONS,
    UnionIndex,
    is_plain_pair,
    written_as,
)
from tallymark_schema_registry.schemas.model import (
    Array,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Ref,
    Schema,
    Union,
)


class LogicalType(NamedTuple):
    """``precision`` and ``scale`` are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})" if self.precision else self.name


_BASES: Final = {
    "big-decimal": "bytes",
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}
_FIXED_SIZES: Final = {"uuid": 16, "duration": 12}


def logical_type(node: Primitive | Fixed) -> LogicalType | None:
    """The logical type, if it is one of Avro 1.12 on a type that it may be on; readers ignore all
    others."""
    if not node.props:
        return None
    props = dict(node.props)
    name = props.get("logicalType")
    if name == "decimal":
        return _decimal(node, props.get("precision"), props.get("scale", 0))
    if isinstance(node, Fixed):
        known = isinstance(name, str) and _FIXED_SIZES.get(name) == node.size
    else:
        known = (name == "uuid" and node.kind == "string") or (
            isinstance(name, str) and _BASES.get(name) == node.kind
        )
    return LogicalType(str(name)) if known else None


def _decimal(node: Primitive | Fixed, precision: object, scale: object) -> LogicalType | None:
    if not _is_int(precision) or not _is_int(scale):
        return None
    assert isinstance(precision, int)
    assert isinstance(scale, int)
    if isinstance(node, Fixed):
        largest = math.floor(math.log10(2) * (8 * node.size - 1))
    else:
        largest = 2**31 if node.kind == "bytes" else 0
    if not 0 < precision <= largest or not 0 <= scale <= precision:
        return None
    return LogicalType("decimal", precision, scale)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def logical_changes(
    reader: Schema, writer: Schema, budget: Budget | None = None
) -> list[Incompatibility]:
    """Where ``reader`` gives values of ``writer`` another meaning: another unit of time, another
    scale, a smaller precision, another logical type or none. :data:`MAX_REASONS` at most.

    Only of types that match: ``incompatibilities`` reports the others. Raises
    :class:`~.budget.TooLargeError`."""
    walk = _Walk(reader, writer, budget or Budget())
    walk.budget.doing = "to compare"
    try:
        walk.nodes(reader.root, writer.root, "")
    except RecursionError:
        raise TooLargeError("it is nested too deeply to compare") from None
    return walk.found[:MAX_REASONS]


class _Walk:
    """One comparison; each pair of records is looked at once."""

    def __init__(self, reader: Schema, writer: Schema, budget: Budget) -> None:
        self.reader = reader
        self.writer = writer
        self.budget = budget
        self.met: set[tuple[int, int]] = set()
        self.unions: dict[int, UnionIndex] = {}
        self.found: list[Incompatibility] = []

    def nodes(self, reader: Node, writer: Node, path: str) -> None:
        self.budget.spend()
        if isinstance(reader, Ref):
            reader = self.reader.names[reader.name]
        if isinstance(writer, Ref):
            writer = self.writer.names[writer.name]
        if isinstance(reader, Primitive | Fixed) and isinstance(writer, Primitive | Fixed):
            return self.leaves(reader, writer, path)
        if len(self.found) >= MAX_REASONS or (is_plain_pair(reader) and is_plain_pair(writer)):
            return None
        if isinstance(writer, Union):
            for branch in writer.branches:
                self.nodes(reader, branch, path)
        elif isinstance(reader, Union):
            self.union(reader, writer, path)
        elif isinstance(reader, Array) and isinstance(writer, Array):
            self.nodes(reader.items, writer.items, f"{path}/items")
        elif isinstance(reader, Map) and isinstance(writer, Map):
            self.nodes(reader.values, writer.values, f"{path}/values")
        elif isinstance(reader, Record) and isinstance(writer, Record):
            pair = (id(reader), id(writer))
            if pair not in self.met:
                self.met.add(pair)
                self.records(reader, writer, path)
        return None

    def union(self, reader: Union, writer: Node, path: str) -> None:
        """The branch that is most like the writer's type: the values are read with it."""
        index = self.unions.get(id(reader))
        if index is None:
            index = self.unions[id(reader)] = UnionIndex(self.reader, reader, self.budget)
        for place, branch in index.candidates(writer):
            return self.nodes(branch, writer, f"{path}/{place}")
        return None

    def records(self, reader: Record, writer: Record, path: str) -> None:
        self.budget.spend(NODE + len(writer.fields))
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            names = written_as(field, written)
            if len(names) == 1:
                self.nodes(field.type, written[names[0]].type, f"{path}/fields/{index}/type")

    def leaves(self, reader: Primitive | Fixed, writer: Primitive | Fixed, path: str) -> None:
        if not reader.props and not writer.props:
            return
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            if reader.kind != writer.kind and writer.kind not in PROMOTIONS.get(reader.kind, ()):
                return
        elif type(reader) is not type(writer):
            return
        found = _change(logical_type(reader), logical_type(writer), path or "/")
        if found:
            self.found.append(found)


def _change(
    reader: LogicalType | None, writer: LogicalType | None, path: str
) -> Incompatibility | None:
    if reader == writer:
        return None
    if reader and writer and reader.precision and writer.precision:
        if reader.scale != writer.scale:
            kind = "DECIMAL_SCALE_CHANGED"
        elif reader.precision < writer.precision:
            kind = "DECIMAL_PRECISION_REDUCED"
        else:
            return None
    else:
        kind = "LOGICAL_TYPE_CHANGED"
    was, now = writer or "no logical type", reader or "no logical type"
    return Incompatibility(
        kind,
        path,
        f"the reader has {now} where the writer has {was}",
        str(was),
        fix=f"keep {was}, or add a field of another name for the new meaning",
        writer_fix=f"keep {now}, or add a field of another name for the new meaning",
    )
