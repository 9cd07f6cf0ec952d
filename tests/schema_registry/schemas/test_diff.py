"""What changed between two versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from avro_java.generate import cases

from tallymark_schema_registry.schemas import (
    Budget,
    InvalidSchemaError,
    Schema,
    TooLargeError,
    canonical_text,
    diff,
    normalized,
    parse_schema,
)


def schema(tree: Any) -> Schema:
    return parse_schema(json.dumps(tree))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def lines(old: Any, new: Any) -> list[str]:
    return [change.line() for change in diff(schema(old), schema(new))]


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A, B = field("a", "int"), field("b", "string")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "int", []),
        ("int", "long", ["~ long: type int -> long"]),
        (record(A), record(A, B), ["+ R.b: field string"]),
        (
            record(A),
            record(A, field("b", ["null", "string"], default=None)),
            ["+ R.b: field [null, string], default null"],
        ),
        (record(A, B), record(A), ["- R.b: field string"]),
        (record(A), record(field("a", "long")), ["~ R.a: type int -> long"]),
        (
            record(A),
            record(field("z", "int", aliases=["a"])),
            ["~ R.z: name a -> z", "~ R.z: aliases none -> a"],
        ),
        (record(A, B), record(B, A), ["~ R: order of fields a, b -> b, a"]),
        (record(A), record(field("a", "int", default=1)), ["~ R.a: default none -> 1"]),
        (
            record(field("a", "int", default=1)),
            record(field("a", "int", default=2)),
            ["~ R.a: default 1 -> 2"],
        ),
        (record(field("a", "int", default=1)), record(A), ["~ R.a: default 1 -> none"]),
        (record(A), record(field("a", "int", doc="x")), ['~ R.a: doc none -> "x"']),
        (record(A, doc="x"), record(A, doc="y"), ['~ R: doc "x" -> "y"']),
        (record(A), record(A, namespace="n"), ["~ R: name R -> n.R"]),
        (
            record(A),
            record(field("a", "int", order="ignore")),
            ["~ R.a: order ascending -> ignore"],
        ),
        (
            record(field("e", enum("A", "B"))),
            record(field("e", enum("A", "C", default="A"))),
            ["+ R.e: symbols C", "- R.e: symbols B", "~ R.e: default none -> A"],
        ),
        (enum("A", "B"), enum("B", "A"), ["~ E: order of symbols A, B -> B, A"]),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2, "aliases": ["G"]},
            ["~ F: aliases none -> G", "~ F: size 1 -> 2"],
        ),
        (
            record(field("a", ["null", "int"])),
            record(field("a", ["int", "null", "string"])),
            [
                "+ R.a: branch string",
                "~ R.a: order of branches null, int -> [int, null, string]",
            ],
        ),
        (
            record(field("l", {"type": "array", "items": record(A, name="I")})),
            record(field("l", {"type": "array", "items": record(A, B, name="I")})),
            ["+ R.l[].b: field string"],
        ),
        (
            {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}},
            {"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}},
            ['~ {}: logicalType "timestamp-millis" -> "timestamp-micros"'],
        ),
        (
            record(A),
            {"type": "fixed", "name": "R", "size": 1},
            ["~ R: type record R -> fixed R"],
        ),
        (record(A), record({**A, "x/y": 1}), ["~ R.a: x/y none -> 1"]),
    ],
)
def test_the_changes_as_lines(old: Any, new: Any, expected: list[str]) -> None:
    assert lines(old, new) == expected


def test_a_change_as_data() -> None:
    old, new = schema(record(A, B)), schema(record(field("c", "int", x=1), A))
    added, removed = diff(old, new)
    assert (added.action, added.what, added.place, added.path) == (
        "added",
        "field",
        "R.c",
        "/fields/0",
    )
    assert (removed.action, removed.path, removed.before) == ("removed", "/fields/1", "string")
    (prop,) = diff(schema(record(A)), schema(record({**A, "x/y": 1})))
    assert prop.path == "/fields/0/x~1y"


def test_random_schemas_differ_if_and_only_if_their_normal_forms_do() -> None:
    """Nothing is left out; and what means nothing is no change."""
    equal = different = 0
    for case in cases(seed=8, count=200):
        if case["references"]:
            continue
        try:
            old, new = (normalized(parse_schema(text)) for text in case["texts"])
        except InvalidSchemaError:
            continue
        same = canonical_text(old) == canonical_text(new)
        assert (diff(old, new) == []) == same, (case, diff(old, new))
        equal += same
        different += not same
    assert equal > 10
    assert different > 10


def test_recursive_and_large_schemas_end() -> None:
    tree = record(A, field("next", ["null", "R"]))
    assert lines(tree, tree) == []
    many = schema(record(*[field(f"f{n}", "int") for n in range(2000)]))
    none = schema(record())
    assert len(diff(none, many)) == 500
    with pytest.raises(TooLargeError):
        diff(many, many, Budget(100))
    deep: Any = "int"
    for _ in range(60):
        deep = [{"type": "array", "items": deep}, "null"]
    assert max(map(len, lines(deep, "int"))) < 500
