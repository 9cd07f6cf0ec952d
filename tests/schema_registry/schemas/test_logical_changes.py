"""What no rule of compatibility refuses, and changes values all the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.schemas import (
    Budget,
    Schema,
    TooLargeError,
    incompatibilities,
    logical_changes,
    parse_schema,
)


def schema(tree: Any) -> Schema:
    return parse_schema(json.dumps(tree))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
FIXED = {"type": "fixed", "name": "F", "size": 8}


@pytest.mark.parametrize(
    ("reader", "writer", "kinds"),
    [
        (decimal(6, 2), decimal(6, 2), []),
        (decimal(6, 3), decimal(6, 2), ["DECIMAL_SCALE_CHANGED"]),
        (decimal(5, 2), decimal(6, 2), ["DECIMAL_PRECISION_REDUCED"]),
        (decimal(8, 2), decimal(6, 2), []),
        (MILLIS, MICROS, ["LOGICAL_TYPE_CHANGED"]),
        ("long", MILLIS, ["LOGICAL_TYPE_CHANGED"]),
        (MILLIS, "long", ["LOGICAL_TYPE_CHANGED"]),
        (logical("int", "date"), "int", ["LOGICAL_TYPE_CHANGED"]),
        (logical("string", "uuid"), "string", ["LOGICAL_TYPE_CHANGED"]),
        ("long", logical("int", "date"), ["LOGICAL_TYPE_CHANGED"]),
        # What is no logical type there, readers do not see.
        (logical("int", "timestamp-millis"), "int", []),
        (logical("bytes", "decimal", precision="4"), "bytes", []),
        (logical("string", "mine"), "string", []),
        # Types that do not match are told by the rules.
        (MILLIS, "string", []),
        # Wherever it is.
        (record(MICROS), record(MILLIS), ["LOGICAL_TYPE_CHANGED"]),
        (record(["null", MICROS]), record(["null", MILLIS]), ["LOGICAL_TYPE_CHANGED"]),
        (record(["null", MICROS]), record(MILLIS), ["LOGICAL_TYPE_CHANGED"]),
        (record(["null", MILLIS]), record(MILLIS), []),
        (
            {"type": "map", "values": MICROS},
            {"type": "map", "values": MILLIS},
            ["LOGICAL_TYPE_CHANGED"],
        ),
        ({"type": "array", "items": MICROS}, {"type": "array", "items": MICROS}, []),
        (
            {**FIXED, **logical("fixed", "decimal", precision=6, scale=1)},
            {**FIXED, **logical("fixed", "decimal", precision=6, scale=2)},
            ["DECIMAL_SCALE_CHANGED"],
        ),
    ],
)
def test_the_changes(reader: Any, writer: Any, kinds: list[str]) -> None:
    assert [item.kind for item in logical_changes(schema(reader), schema(writer))] == kinds


def test_the_rules_do_not_see_them_and_the_path_leads_there() -> None:
    reader, writer = schema(record(["null", decimal(6, 3)])), schema(record(decimal(6, 2)))
    assert incompatibilities(reader, writer) == []
    (found,) = logical_changes(reader, writer)
    assert found.path == "/fields/0/type/1"
    assert found.text == "the reader has decimal(6, 3) where the writer has decimal(6, 2)"
    assert "keep decimal(6, 2)" in found.fix


def test_fields_are_matched_by_alias() -> None:
    reader = schema(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "b", "aliases": ["a"], "type": MICROS}],
        }
    )
    assert [item.path for item in logical_changes(reader, schema(record(MILLIS)))] == [
        "/fields/0/type"
    ]


def test_recursive_types_and_many_changes_end() -> None:
    tree = record(MILLIS)
    tree["fields"].append({"name": "next", "type": ["null", "R"], "default": None})
    assert logical_changes(schema(tree), schema(tree)) == []
    wide = {f"f{n}": n for n in range(300)}

    def of(kind: Any) -> Schema:
        fields = [{"name": name, "type": kind} for name in wide]
        return schema({"type": "record", "name": "W", "fields": fields})

    assert len(logical_changes(of(MICROS), of(MILLIS))) == 100
    with pytest.raises(TooLargeError):
        logical_changes(of(MICROS), of(MILLIS), Budget(50))
