"""Whether a JSON value can be the default of a field of some type (Java's ``isValidDefault``).

A default of a union may be of any branch, so a value within unions of records is tried against
each of them, on every level: results are remembered by (type, value); otherwise a value nested 20
deep would be checked a million times.
"""

from __future__ import annotations

from typing import Any

from tallymark_schema_registry.schemas.budget import NODE, Budget
from tallymark_schema_registry.schemas.json_tree import NO_NUMBERS
from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)


class DefaultCheck:
    """The defaults of one schema. ``budget`` is what they may spend. Of an enum any text fits, as
    in Java, unless ``symbols`` asks for more."""

    def __init__(self, schema: Schema, budget: Budget, symbols: bool = False) -> None:
        self._schema = schema
        self._budget = budget
        self._symbols = symbols
        self._sets: dict[int, frozenset[Any]] = {}
        self._memo: dict[tuple[int, int], bool] = {}

    def fits_field(self, field: Field) -> bool:
        """Whether the field's default fits; "NaN" and the like only as the whole of it."""
        if field.default in NO_NUMBERS and isinstance(field.type, Primitive):
            return field.type.kind in ("float", "double", "string", "bytes")
        return self.fits(field.type, field.default)

    def fits(self, node: Node, value: Any) -> bool:
        """bytes and fixed are text, one byte a character. ``value`` must be part of the schema: it
        is known by its place in memory."""
        self._budget.spend()
        node = self._schema.resolve(node)
        if isinstance(node, Primitive):
            return _primitive(node.kind, value)
        pair = (id(node), id(value))
        known = self._memo.get(pair)
        if known is None:
            self._budget.spend(NODE)
            known = self._memo[pair] = self._looked_at(node, value)
        return known

    def _looked_at(self, node: Node, value: Any) -> bool:
        if isinstance(node, Union):
            return any(self.fits(branch, value) for branch in node.branches)
        if isinstance(node, Array):
            return isinstance(value, list) and all(self.fits(node.items, item) for item in value)
        if isinstance(node, Map):
            return isinstance(value, dict) and all(
                self.fits(node.values, item) for item in value.values()
            )
        if isinstance(node, Enum) and self._symbols:
            return isinstance(value, str) and value in self._symbols_of(node)
        if isinstance(node, Enum | Fixed):
            return isinstance(value, str)
        return isinstance(node, Record) and self._record(node, value)

    def _record(self, record: Record, value: Any) -> bool:
        """A field that the value leaves out must have a default of its own."""
        if not isinstance(value, dict):
            return False
        given = ((field, value.get(field.name, field.default)) for field in record.fields)
        return all(item is not MISSING and self.fits(field.type, item) for field, item in given)

    def _symbols_of(self, enum: Enum) -> frozenset[Any]:
        found = self._sets.get(id(enum))
        if found is None:
            self._budget.spend(len(enum.symbols) // 8)
            found = self._sets[id(enum)] = frozenset(enum.symbols)
        return found


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
