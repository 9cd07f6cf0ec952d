"""Whether a JSON value can be the default of a field of some type (Java's ``isValidDefault``)."""

from __future__ import annotations

from typing import Any

from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)


def fits(schema: Schema, node: Node, value: Any) -> bool:
    """A default of a union may be of any branch. bytes and fixed are text, one byte a character."""
    node = schema.resolve(node)
    if isinstance(node, Primitive):
        return _primitive(node.kind, value)
    if isinstance(node, Union):
        return any(fits(schema, branch, value) for branch in node.branches)
    if isinstance(node, Array):
        return isinstance(value, list) and all(fits(schema, node.items, item) for item in value)
    if isinstance(node, Map):
        return isinstance(value, dict) and all(
            fits(schema, node.values, item) for item in value.values()
        )
    if isinstance(node, Enum):
        return isinstance(value, str) and value in node.symbols
    if isinstance(node, Fixed):
        return isinstance(value, str)
    return isinstance(node, Record) and _record(schema, node, value)


def _primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("string", "bytes"):
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return isinstance(value, int) and -(2**bits) <= value < 2**bits
    return isinstance(value, int | float)


def _record(schema: Schema, record: Record, value: Any) -> bool:
    """A field that the value leaves out must have a default of its own."""
    if not isinstance(value, dict):
        return False
    given = ((field, value.get(field.name, field.default)) for field in record.fields)
    return all(item is not MISSING and fits(schema, field.type, item) for field, item in given)
