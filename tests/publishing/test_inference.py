"""Schemas from samples, and rows against schemas: nothing is lost on the way."""

from __future__ import annotations

import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.publishing.schemas.fitting import Misfit, fitter
from tallymark.publishing.schemas.inference import infer_schema
from tallymark.publishing.schemas.names import safe_name, safe_names
from tallymark.serialization import AvroCodec
from tallymark_schema_registry.schemas import parse_schema


def infer(*rows: dict[str, Any], cells: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(infer_schema("topic", rows, cells))
    return schema


def types(*rows: dict[str, Any], cells: bool = False) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in infer(*rows, cells=cells)["fields"]}


def test_the_types_of_json() -> None:
    rows = [
        {"i": 1, "n": 1, "s": "x", "b": True, "maybe": None, "never": None, "mixed": 1, "l": [1]},
        {
            "i": 2,
            "n": 0.5,
            "s": "",
            "b": False,
            "maybe": 2,
            "never": None,
            "mixed": "a",
            "l": [],
            "new": 1,
        },
    ]
    assert types(*rows) == {
        "i": "long",
        "n": "double",
        "s": "string",
        "b": "boolean",
        "maybe": ["null", "long"],
        "never": ["null", "string"],
        "mixed": ["long", "string"],
        "l": {"type": "array", "items": "long"},
        "new": ["null", "long"],
    }


def test_nested_objects_and_odd_names() -> None:
    schema = infer({"user-agent": {"x y": 1}, "user_agent": [{"1st": 1}, {}], "é": []})
    first, second, third = schema["fields"]
    assert (schema["name"], first["name"], first["source"]) == (
        "topic",
        "user_agent_2",
        "user-agent",
    )
    assert first["type"]["fields"] == [{"name": "x_y", "type": "long", "source": "x y"}]
    assert second["name"] == "user_agent"
    assert second["type"]["items"]["fields"] == [
        {"name": "_1st", "type": ["null", "long"], "default": None, "source": "1st"}
    ]
    assert third == {
        "name": "_",
        "type": {"type": "array", "items": ["null", "string"]},
        "source": "é",
    }


def test_objects_that_are_always_empty() -> None:
    """A list of empty objects became an array of items that take no bytes, which no decoder of
    ours takes: five bytes could announce billions of them."""
    empty = {"type": "map", "values": "string"}
    assert types({"l": [{}], "o": {}}) == {"l": {"type": "array", "items": empty}, "o": empty}


def test_the_types_of_csv_columns() -> None:
    rows = [
        {
            "i": "1",
            "d": "1.5",
            "b": "true",
            "code": "007",
            "gap": "",
            "none": "",
            "mixed": "1",
            "text": "",
            "big": "9" * 19,
        },
        {
            "i": "-2",
            "d": "2",
            "b": "FALSE",
            "code": "8",
            "gap": "4",
            "none": "",
            "mixed": "x",
            "text": "t",
            "big": "1",
        },
    ]
    assert types(*rows, cells=True) == {
        "i": "long",
        "d": "double",
        "b": "boolean",
        "code": "string",
        "gap": ["null", "long"],
        "none": ["null", "string"],
        "mixed": "string",
        "text": "string",
        "big": "string",
    }


def test_too_many_fields_are_said() -> None:
    with pytest.raises(UserError, match="more than 2000 different fields"):
        infer(*({f"k{n}": n} for n in range(2001)))


def test_safe_names_are_unique_and_leave_safe_ones_alone() -> None:
    assert safe_names(["a b", "a_b", "a-b", "", "1"]) == {
        "a b": "a_b_2",
        "a_b": "a_b",
        "a-b": "a_b_3",
        "": "_",
        "1": "_1",
    }
    assert safe_name("orders.eu-west") == "orders_eu_west"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["\ud800", "1", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c d", "é"]), VALUES), min_size=1, max_size=5
)


def comparable(value: Any) -> Any:
    """Objects by their values, since names may have changed; integers in doubles are equal."""
    if isinstance(value, dict):
        return sorted(repr(comparable(item)) for item in value.values() if item is not None)
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@settings(max_examples=40, deadline=None)
@given(ROWS, ROWS)
def test_every_accepted_row_encodes_and_comes_back(sample: Any, rows: Any) -> None:
    text = infer_schema("topic", sample, cells=False)
    parse_schema(text)  # the registry takes it
    codec = AvroCodec(text)
    fit = fitter(codec.parsed, cells=False)
    for row in sample + rows:
        try:
            value = fit(row)
        except Misfit:
            continue
        assert comparable(codec.decode(codec.encode(value))) == comparable(row)


CELLS = st.text(max_size=4) | st.sampled_from(
    ["1", "-7", "007", "1.5", "1e3", "true", "", "x", "9" * 25]
)
CELL_ROWS = st.lists(st.fixed_dictionaries({"a": CELLS, "b c": CELLS}), min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(CELL_ROWS, CELL_ROWS)
def test_the_same_for_cells(sample: Any, rows: Any) -> None:
    codec = AvroCodec(infer_schema("topic", sample, cells=True))
    fit = fitter(codec.parsed, cells=True)
    for row in sample + rows:
        try:
            value = fit(row)
        except Misfit:
            # A sample's own rows always fit, but for texts that no encoding has.
            assert row not in sample or any("\ud800" <= char <= "\udfff" for char in str(row))
            continue
        back = codec.decode(codec.encode(value))
        for cell, typed in ((row["a"], back["a"]), (row["b c"], back["b_c"])):
            if isinstance(typed, str):
                assert typed == cell
            elif isinstance(typed, bool):
                assert str(typed).lower() == cell.lower()
            else:
                assert typed is None if cell == "" else math.isclose(float(cell), typed)


def fit_field(kind: Any, value: Any, cells: bool = False, **more: Any) -> Any:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, **more}]}
    return fitter(fastavro.parse_schema(schema), cells)({"f": value})["f"]


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("double", 3, 3.0),
        ("bytes", "aÿ", b"a\xff"),
        (FIXED, "ab", b"ab"),
        (ENUM, "A", "A"),
        (MILLIS, "2015-05-17T08:05:03Z", 1431849903000),
        (MICROS, "2015-05-17T08:05:03Z", 1431849903000000),
        (MILLIS, 5, 5),
        (["null", "long", "string"], "x", "x"),
        ({"type": "map", "values": "long"}, {"k": 1}, {"k": 1}),
    ],
)
def test_values_that_fit(kind: Any, value: Any, result: Any) -> None:
    assert fit_field(kind, value) == result


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", 2**31, "f: 2147483648 is beyond 32 bits"),
        ("long", 10**40, "f: an integer of more than 30 digits is beyond 64 bits"),
        ("long", 1.0, "f: an integer is expected, not 1.0"),
        ("long", True, "f: an integer is expected"),
        ("double", 2**53 + 1, "f: a double cannot hold 9007199254740993 exactly"),
        ("double", 10**400, "f: a double cannot hold"),
        ("float", 1e300, "f: a float cannot hold"),
        ("boolean", 1, "f: true or false is expected, not 1"),
        ("string", None, "f: a text is expected, not null"),
        ("string", "\ud800", "f: the text holds half of a surrogate pair"),
        ("bytes", "€", r"beyond U\+00FF"),
        (FIXED, "a", "f: 1 bytes, where 2 are expected"),
        (ENUM, "C", "f: 'C' is not one of the symbols"),
        (MILLIS, "soon", "f: 'soon' is not a time"),
        (["null", "long"], "x", "f: an integer is expected, not 'x'"),
        (["long", "null"], "x", "f: an integer is expected, not 'x'"),
        (["long", "string"], [], "fits no branch"),
        # The encoder would write it into the double, rounded.
        (["double", "long"], 2**53 + 1, "fits no branch"),
        ({"type": "array", "items": "long"}, [1, "x"], r"f\[1\]: an integer is expected"),
        ({"type": "map", "values": "long"}, {"k": "x"}, r"f\.k: an integer is expected"),
    ],
)
def test_values_that_do_not_fit(kind: Any, value: Any, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        fit_field(kind, value)


def test_records_are_exact() -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "long", "default": 0}]
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    fit = fitter(schema, cells=False)
    assert fit({"a": 1}) == {"a": 1}
    for row, reason in [
        ({}, "a: it is missing"),
        ({"a": 1, "z": 1}, "z: the schema has no such field"),
    ]:
        with pytest.raises(Misfit, match=reason):
            fit(row)


def test_a_recursive_schema_that_is_given() -> None:
    fields = [{"name": "next", "type": ["null", "L"], "default": None}]
    fit = fitter(fastavro.parse_schema({"type": "record", "name": "L", "fields": fields}), False)
    assert fit({"next": {"next": None}}) == {"next": {"next": None}}
    with pytest.raises(Misfit, match=r"next\.next: an object is expected, not 5"):
        fit({"next": {"next": 5}})


def test_cells_follow_a_given_schema() -> None:
    assert fit_field("string", "007", cells=True) == "007"
    assert fit_field(["null", "double"], "", cells=True) is None
    assert fit_field(MILLIS, "5", cells=True) == 5
    assert fit_field(ENUM, "B", cells=True) == "B"
    for kind, cell in (("long", "007"), ("long", ""), ({"type": "array", "items": "long"}, "1")):
        with pytest.raises(Misfit):
            fit_field(kind, cell, cells=True)


def test_a_schema_that_is_no_record() -> None:
    with pytest.raises(UserError, match="not a record"):
        fitter("string", cells=False)
