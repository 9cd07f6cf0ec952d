"""What a person is told about a new schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.schemas import (
    Budget,
    Finding,
    Schema,
    TooLargeError,
    compare,
    doubts,
    parse_schema,
)


def schema(tree: Any, stored: bool = False) -> Schema:
    return parse_schema(json.dumps(tree), stored=stored)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def of(kind: Any, **more: Any) -> dict[str, Any]:
    return record({"name": "a", "type": kind, **more})


A = {"name": "a", "type": "int"}
B = {"name": "b", "type": "string"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def backward(new: Any, old: Any, **more: Any) -> list[Finding]:
    return compare(schema(new), schema(old), backward=True, forward=False, **more)


def forward(new: Any, old: Any) -> list[Finding]:
    return compare(schema(new), schema(old), backward=False, forward=True)


@pytest.mark.parametrize(
    ("better", "worse", "old"),
    [
        (record(A, {**B, "default": ""}), record(A, B), record(A)),
        (record(A, {**B, "aliases": ["c"]}), record(A, B), record(A, {**B, "name": "c"})),
        (of(["int", "string"]), of("string"), of("int")),
        (of(["null", "int"]), of(["null", "string"]), of("int")),
        (of(enum("A", "B", "C")), of(enum("A", "C")), of(enum("A", "B"))),
        (of(enum("A", "C", default="A")), of(enum("A", "C")), of(enum("A", "B"))),
        (of([fixed(2, "G"), fixed(1)]), of(fixed(2)), of(fixed(1))),
        (record(A, name="S", aliases=["R"]), record(A, name="S"), record(A)),
        (
            of("int", name="b", aliases=["a"]),
            of("int", name="b", aliases=["a", "c"]),
            record(A, {**A, "name": "c"}),
        ),
    ],
)
def test_who_follows_the_fix_is_compatible(better: Any, worse: Any, old: Any) -> None:
    (found,) = backward(worse, old)
    assert found.fix
    assert found.schema == "new"
    assert found.refuses
    assert backward(better, old) == []


def test_the_fix_of_a_forward_conflict_speaks_of_the_new_schema() -> None:
    """ "Add a default to b" would be of no use: the field is in the old schema, which is stored."""
    (found,) = forward(record(A), record(A, B))
    assert (found.rule, found.path, found.schema) == (
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "/fields/1",
        "old",
    )
    assert found.fix.startswith("keep field 'b'")
    assert "the old schema's field 'b' has no default" in found.text
    assert "the new schema does not have it" in found.text


def test_both_directions_forward_first() -> None:
    findings = compare(
        schema(of("string")), schema(of("int")), backward=True, forward=True, logical=True
    )
    assert [(one.schema, one.info) for one in findings] == [("old", "string"), ("new", "int")]


def test_changes_of_logical_types_are_warnings_unless_they_are_asked_for() -> None:
    (warning,) = backward(of(MICROS), of(MILLIS))
    assert not warning.refuses
    (reason,) = backward(of(MICROS), of(MILLIS), logical=True)
    assert reason.refuses
    assert (reason.rule, reason.path) == ("LOGICAL_TYPE_CHANGED", "/fields/0/type")
    assert "the new schema has timestamp-micros" in reason.text
    assert "the old schema has timestamp-millis" in reason.text


def test_the_message_has_the_form_that_clients_know() -> None:
    (found,) = backward(record(A, B), record(A))
    assert found.message() == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'at path /fields/1: the new "
        "schema's field 'b' has no default, and the old schema does not have it (add `default` to "
        "field 'b'; if it was renamed, add its old name to `aliases`)', additionalInfo:'b'}"
    )


def test_what_is_wrong_with_the_branch_that_was_meant_is_told() -> None:
    """A field [null, Address], and a field of Address with another type: all that was said is that
    no branch takes Address, which is there, and to add it."""

    def address(kind: str) -> Any:
        return of(["null", record({"name": "zip", "type": kind}, name="Address")])

    union, inner = backward(address("int"), address("string"))
    assert union.rule == "MISSING_UNION_BRANCH"
    assert union.fix == "change its branch 1 so that it reads record Address"
    assert inner.rule == "TYPE_MISMATCH"
    assert inner.path == "/fields/0/type/1/fields/0/type"


def test_a_pair_of_types_that_is_met_twice_is_told_once() -> None:
    """The same reason was in the answer once for each field of the type."""

    def twice(kind: str) -> Any:
        inner = record({"name": "x", "type": kind}, name="I")
        return record({"name": "a", "type": inner}, {"name": "b", "type": "I"})

    assert [one.path for one in backward(twice("int"), twice("string"))] == [
        "/fields/0/type/fields/0/type"
    ]


def test_a_default_that_is_no_symbol_is_a_warning() -> None:
    inner = {"name": "n", "type": {"type": "array", "items": enum("A")}, "default": ["A", "B"]}
    tree = record({"name": "a", "type": ["null", record(inner, name="I")], "default": None})
    (found,) = doubts(schema(tree))
    assert (found.rule, found.refuses) == ("DEFAULT_IS_NO_SYMBOL", False)
    assert found.path == "/fields/0/type/1/fields/0/default"
    assert doubts(schema(of(enum("A"), default="A"))) == []
    assert doubts(schema(of("double", default="NaN"))) == []


def test_wrong_defaults_of_stored_versions_are_warnings() -> None:
    (found,) = doubts(schema(of("int", default="x"), stored=True))
    assert found.rule == "DEFAULT_DOES_NOT_FIT"
    assert doubts(schema("int")) == []


def test_doubts_are_bounded() -> None:
    fields = [
        {"name": f"f{n}", "type": "E" if n else enum("A"), "default": "B"} for n in range(300)
    ]
    tree = schema(record(*fields))
    assert len(doubts(tree)) == 100
    with pytest.raises(TooLargeError, match="defaults"):
        doubts(tree, Budget(50))
