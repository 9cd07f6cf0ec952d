"""The compatibility rules and levels, by tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.levels import Level, differences, first_conflict
from tallymark_schema_registry.schemas import Schema, incompatibilities, parse_schema


def schema(tree: Any) -> Schema:
    return parse_schema(json.dumps(tree))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
B_DEFAULT = {**B, "default": ""}


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        ("long", "int", []),
        ("int", "long", [("TYPE_MISMATCH", "/", "long")]),
        ("double", "float", []),
        ("string", "bytes", []),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], [("TYPE_MISMATCH", "/", "null")]),
        (["null", "long"], ["int", "null"], []),
        (["null", "int"], "string", [("MISSING_UNION_BRANCH", "/", "string")]),
        (record(A), record(A, B), []),
        (record(A, B), record(A), [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b")]),
        (record(A, B_DEFAULT), record(A), []),
        (
            record({**B_DEFAULT, "type": "int", "default": 0}),
            record(B),
            [("TYPE_MISMATCH", "/fields/0/type", "string")],
        ),
        # Named types by their name without namespace, or by an alias of the reader.
        (record(A, namespace="n"), record(A, namespace="m"), []),
        (record(A), record(A, name="S"), [("NAME_MISMATCH", "/name", "S")]),
        (record(A, aliases=["S"]), record(A, name="S"), []),
        (record(A, name="n.R", aliases=["S"]), record(A, name="n.S"), []),
        (
            record(A, name="n.R", aliases=["S"]),
            record(A, name="S"),
            [("NAME_MISMATCH", "/name", "S")],
        ),
        # Fields by name or alias; both at once is ambiguous.
        (record({"name": "z", "type": "int", "aliases": ["a"]}), record(A), []),
        (
            record({"name": "a", "type": "int", "aliases": ["c"]}),
            record(A, {**A, "name": "c"}),
            [("AMBIGUOUS_FIELD", "/fields/0", "a")],
        ),
        (enum("A", "B"), enum("B"), []),
        (enum("A"), enum("A", "C"), [("MISSING_ENUM_SYMBOLS", "/symbols", "C")]),
        (enum("A", default="A"), enum("A", "C"), []),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            [("FIXED_SIZE_MISMATCH", "/size", "2")],
        ),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": "string"},
            [("TYPE_MISMATCH", "/items", "string")],
        ),
        (
            {"type": "map", "values": "int"},
            {"type": "array", "items": "int"},
            [("TYPE_MISMATCH", "/", "array")],
        ),
        # Logical types play no part.
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", []),
    ],
)
def test_the_rules(reader: Any, writer: Any, found: list[tuple[str, str, str]]) -> None:
    result = incompatibilities(schema(reader), schema(writer))
    assert [(item.kind, item.path, item.info) for item in result] == found


def test_recursive_schemas_are_compared_once() -> None:
    def tree(kind: str) -> dict[str, Any]:
        children = {"name": "children", "type": {"type": "array", "items": "Tree"}}
        return record({"name": "value", "type": kind}, children, name="Tree")

    assert incompatibilities(schema(tree("long")), schema(tree("int"))) == []
    assert incompatibilities(schema(tree("int")), schema(tree("long")))


def test_types_that_all_schemas_share_are_told_at_each_place() -> None:
    """Plain primitives and unions of two of them are the same objects everywhere."""

    def of(kind: Any) -> Schema:
        return schema(record({"name": "a", "type": kind}, {"name": "b", "type": kind}))

    for reader in ("int", ["null", "int"]):
        found = incompatibilities(of(reader), of(["null", "string"]))
        places = {item.path.rpartition("/type")[0] for item in found}
        assert places == {"/fields/0", "/fields/1"}
    assert incompatibilities(of(["null", "int"]), of(["null", "int"])) == []


ADDED = schema(record(A, B))
ADDED_WITH_DEFAULT = schema(record(A, B_DEFAULT))
BASE = schema(record(A))


@pytest.mark.parametrize(
    ("level", "new", "old", "kinds"),
    [
        (Level.BACKWARD, ADDED, BASE, 1),
        (Level.BACKWARD, ADDED_WITH_DEFAULT, BASE, 0),
        (Level.BACKWARD, BASE, ADDED, 0),
        (Level.FORWARD, ADDED, BASE, 0),
        (Level.FORWARD, BASE, ADDED, 1),
        (Level.FULL, BASE, ADDED, 1),
        (Level.FULL, ADDED, BASE, 1),
        (Level.FULL, ADDED_WITH_DEFAULT, BASE, 0),
    ],
)
def test_directions(level: Level, new: Schema, old: Schema, kinds: int) -> None:
    assert len(differences(level, new, old)) == kinds


def test_transitive_levels_look_at_every_version_and_name_the_newest_conflict() -> None:
    versions = {1: BASE, 2: schema(record()), 3: ADDED_WITH_DEFAULT}

    def conflict(level: Level, new: Schema) -> int | None:
        found = first_conflict(level, new, sorted(versions, reverse=True), versions.__getitem__)
        return found[0] if found else None

    assert conflict(Level.BACKWARD, BASE) is None
    assert conflict(Level.BACKWARD_TRANSITIVE, BASE) == 2
    assert conflict(Level.NONE, schema("int")) is None
    assert conflict(Level.FULL_TRANSITIVE, schema("int")) == 3


def test_the_reasons_speak_of_new_and_old() -> None:
    (reason,) = differences(Level.BACKWARD, ADDED, BASE)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in reason
    assert (
        "the new schema's field 'b' has no default, and the old schema does not have it" in reason
    )
