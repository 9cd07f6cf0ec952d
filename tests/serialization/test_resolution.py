"""Values written with one schema, read as another."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.serialization import AvroCodec, SerializationError
from tallymark.serialization.resolution import Resolution

DAY = {"type": "int", "logicalType": "date"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "x", "type": "int", "default": 3},
        {"name": "day", "type": DAY, "default": 1},
    ],
}
ENUM = {"type": "enum", "name": "K", "symbols": ["A", "B"]}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def read(writer: Any, reader: Any, value: Any) -> Any:
    wrote, reads = AvroCodec(json.dumps(writer)), AvroCodec(json.dumps(reader))
    return Resolution(wrote, reads).decode(wrote.encode(value))


A = field("a", "int")


@pytest.mark.parametrize(
    ("writer", "reader", "value", "found"),
    [
        (record(A), record(A, field("b", "string", default="x")), {"a": 1}, {"a": 1, "b": "x"}),
        (record(A, field("b", "string")), record(A), {"a": 1, "b": "x"}, {"a": 1}),
        (record(A), record(field("a", "double")), {"a": 1}, {"a": 1.0}),
        (record(A), record(field("z", "int", aliases=["a"])), {"a": 1}, {"z": 1}),
        (record(A), record(A, name="S", aliases=["R"]), {"a": 1}, {"a": 1}),
        (record(A), record(A, name="other.R"), {"a": 1}, {"a": 1}),
        (record(A), record(field("a", ["null", "long"])), {"a": 1}, {"a": 1}),
        (record(field("a", ["null", "int"])), record(A), {"a": 1}, {"a": 1}),
        (record(field("a", "string")), record(field("a", "bytes")), {"a": "x"}, {"a": b"x"}),
        (ENUM, {**ENUM, "symbols": ["A"], "default": "A"}, "B", "A"),
        ("int", ["string", "long"], 3, 3),
        (["null", "long"], ["null", "double", "long"], 2**60 + 1, 2**60 + 1),
        (
            record(field("a", ["float", "int"])),
            record(field("a", ["float", "int"]), field("b", "int", default=1)),
            {"a": 3},
            {"a": 3, "b": 1},
        ),
        (["int", "string"], "string", "x", "x"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1], [1]),
        (ENUM, ENUM, "B", "B"),
        (["null", ENUM], ["null", ENUM], "B", "B"),
    ],
)
def test_schemas_that_fit(writer: Any, reader: Any, value: Any, found: Any) -> None:
    result = read(writer, reader, value)
    assert result == found
    assert type(result) is type(found)


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (DAY, 1, datetime.date(1970, 1, 2)),
        (MONEY, "\u0001\u0002", decimal.Decimal("2.58")),
        ("float", 1, 1.0),
        ("double", "NaN", float("nan")),
        (["null", "int"], None, None),
        (["null", "int"], 5, 5),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0000", b"\xff\0"),
        (ENUM, "B", "B"),
        ({"type": "array", "items": DAY}, [0], [datetime.date(1970, 1, 1)]),
        ({"type": "map", "values": "bytes"}, {"k": "\u0080"}, {"k": b"\x80"}),
        (INNER, {}, {"x": 3, "day": datetime.date(1970, 1, 2)}),
        (INNER, {"x": 4, "day": 0}, {"x": 4, "day": datetime.date(1970, 1, 1)}),
        (["null", INNER], {"x": 4}, {"x": 4, "day": datetime.date(1970, 1, 2)}),
    ],
)
def test_a_default_is_what_decoding_would_give(kind: Any, default: Any, found: Any) -> None:
    """fastavro gives the JSON of the schema: a text for bytes, a number for a date, {} for a
    record whose fields have defaults."""
    value = read(record(A), record(A, field("b", kind, default=default)), {"a": 1})["b"]
    assert repr(value) == repr(found)


def test_fields_that_took_the_names_of_others() -> None:
    """fastavro looks for the same name first: the values changed places in silence."""
    old = record(field("a", "int"), field("b", "int"), field("c", "int"))
    new = record(
        field("b", "int", aliases=["a"]),
        field("c", "int", aliases=["b"]),
        field("d", "int", aliases=["c"]),
        field("a", "int", default=9),
    )
    assert read(old, new, {"a": 1, "b": 2, "c": 3}) == {"b": 1, "c": 2, "d": 3, "a": 9}
    both = record(field("b", "int", aliases=["a"]))
    assert read(old, both, {"a": 1, "b": 2, "c": 3}) == {"b": 2}
    claimed = record(field("a", "int", aliases=["c"]), field("b", "int", aliases=["a", "b"]))
    assert read(old, claimed, {"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2}
    inner = record(field("x", old), field("y", ["null", "R"]))
    renamed = record(field("x", new), field("y", ["null", "R"]))
    inner["name"] = renamed["name"] = "Outer"
    value = {"a": 1, "b": 2, "c": 3}
    turned = {"b": 1, "c": 2, "d": 3, "a": 9}
    assert read(inner, renamed, {"x": value, "y": value}) == {"x": turned, "y": turned}


@pytest.mark.parametrize(
    ("more", "found"),
    [({}, 7), ({"aliases": ["R"]}, 7), ({"aliases": ["other.R"]}, 7), ({"aliases": ["old.R"]}, 1)],
)
def test_aliases_of_fields_count_in_records_of_the_same_full_name(
    more: dict[str, Any], found: int
) -> None:
    """A record of another namespace is read, and a field by its name; but its fields were also
    taken by their aliases, where Java fills in the default."""
    writer = record(field("a", "int"), name="old.R")
    reader = record(field("b", "int", aliases=["a"], default=7), name="new.R", **more)
    assert read(writer, reader, {"a": 1}) == {"b": found}


def test_a_default_is_a_new_object_in_each_value() -> None:
    """fastavro gives the same list to every value: what an application puts in stood in all."""
    more = field("b", {"type": "array", "items": "int"}, default=[])
    wrote = AvroCodec(record(A))
    reads = Resolution(wrote, AvroCodec(record(A, more)))
    first, second = reads.decode(b"\x02"), reads.decode(b"\x02")
    first["b"].append(1)
    assert second == reads.decode(b"\x02") == {"a": 1, "b": []}


def test_the_default_of_a_type_that_is_named_elsewhere() -> None:
    reader = record(A, field("b", INNER, default={}), field("c", "Inner", default={"x": 9}))
    found = read(record(A), reader, {"a": 1})
    assert (found["b"]["x"], found["c"]["x"]) == (3, 9)


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        (record(A), record(A, field("b", "int")), {"a": 1}),
        (record(A), record(field("a", "string")), {"a": 1}),
        (record(field("a", ["null", "int"])), record(A), {"a": None}),
        (ENUM, {**ENUM, "symbols": ["A"]}, "B"),
        (["int", "string"], "string", 3),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            b"x",
        ),
    ],
)
def test_schemas_that_do_not_fit(writer: Any, reader: Any, value: Any) -> None:
    with pytest.raises(SerializationError, match="the bytes do not decode"):
        read(writer, reader, value)


def test_schemas_of_different_names() -> None:
    wrote = AvroCodec(record(A))
    with pytest.raises(
        SerializationError, match=r"written as R is not read as n\.S; give the reader"
    ):
        Resolution(wrote, AvroCodec(record(A, name="n.S")))
    assert Resolution(wrote, AvroCodec(record(A, name="n.S", aliases=["R"]))).decode(b"\x02")


@pytest.mark.parametrize(
    ("kind", "default"), [(DAY, 2**40), (ENUM, "Z"), ({"type": "array", "items": "int"}, ["x"])]
)
def test_a_default_that_is_no_value_of_its_type(kind: Any, default: Any) -> None:
    """It matters only to values that need it, as in Java."""
    reader = record(A, field("b", kind, default=default))
    reads = Resolution(AvroCodec(record(A)), AvroCodec(reader))
    with pytest.raises(SerializationError, match=r"'b'|default"):
        reads.decode(b"\x02")
    writer = AvroCodec(record(A, field("b", kind)))
    whole = Resolution(writer, AvroCodec(reader))
    value = {"a": 1, "b": AvroCodec(json.dumps(kind)).decode(b"\x00")}
    assert whole.decode(writer.encode(value)) == value


def test_recursive_schemas() -> None:
    """The reference implementation reads them first: deep data ends in an error, not the process.
    It would not know aliases, and give wrong bytes as a default."""
    deep = record(field("next", ["null", "R"]), A)
    more = [field("b", "int", default=7), field("c", "bytes", default="\u00ff")]
    reader = record(field("next", ["null", "R"]), field("d", "long", aliases=["a"]), *more)
    wrote = AvroCodec(deep)
    reads = Resolution(wrote, AvroCodec(reader))
    value = {"next": {"next": None, "a": 1}, "a": 2}
    rest = {"b": 7, "c": b"\xff"}
    found = {"next": {"next": None, "d": 1, **rest}, "d": 2, **rest}
    assert reads.decode(wrote.encode(value)) == found
    with pytest.raises(SerializationError, match="nested too deeply"):
        reads.decode(b"\x02" * 100_000)


NUMBERS = ["int", "long", "float", "double"]


@given(
    writer=st.integers(0, 3),
    more=st.integers(0, 3),
    number=st.integers(-(2**20), 2**20),
    left=st.sets(st.sampled_from("bcd")),
    right=st.sets(st.sampled_from("bcd")),
)
def test_fields_come_and_go(
    writer: int, more: int, number: int, left: set[str], right: set[str]
) -> None:
    """Of every pair of records whose common fields can be promoted."""
    wider = NUMBERS[min(3, writer + more)]
    wrote = record(A, *[field(name, NUMBERS[writer]) for name in sorted(left)])
    reads = record(A, *[field(name, wider, default=1) for name in sorted(right)])
    value = {"a": 1, **dict.fromkeys(left, number)}
    found = read(wrote, reads, value)
    assert found == {"a": 1} | {name: number if name in left else 1 for name in right}


@given(data=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    writer = AvroCodec(record(A, field("b", {"type": "array", "items": ["null", ENUM]})))
    reader = AvroCodec(record(field("b", {"type": "array", "items": ["null", ENUM]})))
    try:
        found = Resolution(writer, reader).decode(data)
    except SerializationError:
        return
    assert list(found) == ["b"]
