"""Types that other schemas define, and definitions that are met again.

A schema may use types of the schemas that it refers to, and of those that these refer to. The name
of a reference does not count, as in Confluent's registry: it is the definition in the text that
makes a name known. A type may be defined again, also one of a reference, if it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tallymark_schema_registry.schemas.budget import Budget
from tallymark_schema_registry.schemas.model import (
    Array,
    Enum,
    Fixed,
    Map,
    Name,
    Named,
    Node,
    Primitive,
    Props,
    Record,
    Ref,
    Schema,
    Union,
)
from tallymark_schema_registry.schemas.names import InvalidSchemaError


def known_types(
    references: Iterable[Schema], budget: Budget, stored: bool
) -> tuple[dict[Name, Named], frozenset[Name]]:
    """All types of the references and of theirs; and the names of the references themselves.

    Raises InvalidSchemaError where two of them define a name differently; not for what is
    ``stored``: there the first definition counts."""
    types: dict[Name, Named] = {}
    known = set[Name]()
    for reference in references:
        budget.spend(1 + (len(reference.names) + len(reference.known)) // 4)
        known |= reference.known
        if isinstance(reference.root, Record | Enum | Fixed):
            known.add(reference.root.name)
        for name, named in reference.names.items():
            first = types.setdefault(name, named)
            if first is not named and not stored and not is_same(first, named, budget):
                raise InvalidSchemaError(f"{name.full} is defined twice, differently")
    return types, frozenset(known)


def is_same(first: Named, again: Named, budget: Budget) -> bool:
    """Whether both define the same type, docs and aliases apart.

    Types within them are compared by name: each definition is compared with the first one of its
    name where it is met, so what has the same name is the same."""
    if isinstance(first, Record):
        budget.spend(4 * len(first.fields))
    return _same_named(first, again, budget)


def _same_named(one: Named, other: Named, budget: Budget) -> bool:
    if not _same_props(one.props, other.props):
        return False
    if isinstance(one, Enum) and isinstance(other, Enum):
        budget.spend(len(one.symbols) // 8)
        return one.symbols == other.symbols
    if isinstance(one, Fixed) and isinstance(other, Fixed):
        return one.size == other.size
    if not isinstance(one, Record) or not isinstance(other, Record):
        return False
    return len(one.fields) == len(other.fields) and all(
        mine.name == theirs.name
        and mine.order == theirs.order
        and _same_json(mine.default, theirs.default)
        and _same_props(mine.props, theirs.props)
        and _same_type(mine.type, theirs.type, budget)
        for mine, theirs in zip(one.fields, other.fields, strict=True)
    )


def _same_type(one: Node, other: Node, budget: Budget) -> bool:
    budget.spend()
    if isinstance(one, Ref | Record | Enum | Fixed):
        return isinstance(other, Ref | Record | Enum | Fixed) and one.name == other.name
    if isinstance(one, Union):
        return (
            isinstance(other, Union)
            and len(one.branches) == len(other.branches)
            and all(
                _same_type(mine, theirs, budget)
                for mine, theirs in zip(one.branches, other.branches, strict=True)
            )
        )
    if isinstance(other, Ref | Record | Enum | Fixed | Union):
        return False
    if not _same_props(one.props, other.props):
        return False
    if isinstance(one, Array):
        return isinstance(other, Array) and _same_type(one.items, other.items, budget)
    if isinstance(one, Map):
        return isinstance(other, Map) and _same_type(one.values, other.values, budget)
    return isinstance(other, Primitive) and one.kind == other.kind


def _same_props(one: Props, other: Props) -> bool:
    return (not one and not other) or _same_json(dict(one), dict(other))


def _same_json(one: Any, other: Any) -> bool:
    """Python takes 1, 1.0 and true for the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    return bool(one == other)
