"""Which branches of a reader's union a type of the writer can match at all: by type and by name.

Comparing a writer's type with every branch costs the product of two unions; two of 5,000
branches took half a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tallymark_schema_registry.schemas.budget import Budget
from tallymark_schema_registry.schemas.model import (
    PLAIN_PAIRS,
    Enum,
    Field,
    Fixed,
    Node,
    Primitive,
    Record,
    Schema,
    Union,
)

PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
"""Kind of the reader -> other kinds that it reads (Avro, Schema Resolution)."""
_PLAIN_PAIRS: Final = frozenset(map(id, PLAIN_PAIRS.values()))


def is_plain_pair(node: Node) -> bool:
    """One of the unions of two primitives that all schemas share: it reads itself."""
    return id(node) in _PLAIN_PAIRS


def written_as(field: Field, written: Mapping[str, Field]) -> list[str]:
    """Under which names the reader's field is among the writer's fields; more than one: it cannot
    be said which is meant."""
    if not field.aliases:
        return [field.name] if field.name in written else []
    return [name for name in (field.name, *field.aliases) if name in written]


class UnionIndex:
    """The branches of one reader's union by what they can match. ``candidates`` keeps their
    order, the one of exactly the same name first: nearly always the one that fits."""

    def __init__(self, schema: Schema, union: Union, budget: Budget) -> None:
        self._same: dict[object, tuple[int, Node]] = {}
        self._others: dict[object, list[tuple[int, Node]]] = {}
        for place, branch in enumerate(union.branches):
            node = schema.resolve(branch)
            self._same.setdefault(_exactly(node), (place, node))
            keys = dict.fromkeys(_matches(node))
            budget.spend(len(keys))
            for key in keys:
                self._others.setdefault(key, []).append((place, node))

    def candidates(self, writer: Node) -> Iterable[tuple[int, Node]]:
        """(place in the union, branch) of all branches that may take ``writer``."""
        same = self._same.get(_exactly(writer))
        if same:
            yield same
        met = {same[0]} if same else set[int]()
        for key in _keys(writer):
            for place, branch in self._others.get(key, ()):
                if place not in met:
                    met.add(place)
                    yield place, branch


def _exactly(node: Node) -> object:
    if isinstance(node, Primitive):
        return node.kind
    if isinstance(node, Record | Enum | Fixed):
        return type(node), node.name
    return type(node)


def _matches(reader: Node) -> Iterable[object]:
    """Under which keys a branch is found."""
    if isinstance(reader, Primitive):
        return (reader.kind, *PROMOTIONS.get(reader.kind, ()))
    if isinstance(reader, Record | Enum | Fixed):
        kind = type(reader)
        return ((kind, reader.name.simple), *((kind, alias) for alias in reader.aliases))
    return (type(reader),)


def _keys(writer: Node) -> Iterable[object]:
    """Under which keys a writer's type looks."""
    if isinstance(writer, Record | Enum | Fixed):
        return ((type(writer), writer.name.simple), (type(writer), writer.name))
    return (_exactly(writer),)
