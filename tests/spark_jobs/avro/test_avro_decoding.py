"""Avro values as Arrow columns: every type, evolution, unions, and what is poison."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from inspect import signature
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import ConnectError, UserError
from tallymark.serialization import Reference, RegistryError, Schema, frame
from tallymark_spark_jobs.source.avro.decoding import Decoded, ValueDecoder
from tallymark_spark_jobs.source.avro.reader_schema import ReaderSchema


class Schemas:
    """The schemas of a test by id, and what was asked."""

    def __init__(self, *trees: Any, references: Mapping[str, str] | None = None) -> None:
        self.texts = [json.dumps(tree) for tree in trees]
        self.references = references or {}
        self.asked: list[int] = []

    def schema_by_id(self, schema_id: int) -> Schema:
        self.asked.append(schema_id)
        if schema_id >= len(self.texts):
            raise RegistryError(404, 40403, "Schema not found")
        found = tuple(Reference(name, name, 1) for name in self.references)
        return Schema(self.texts[schema_id], found)

    def reference_texts(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self.references[one.name] for one in schema.references)


def datum(tree: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(tree), value)
    return stream.getvalue()


def decoded(reader: Any, writer: Any, values: Sequence[Any]) -> Decoded:
    decoder = ValueDecoder(ReaderSchema(json.dumps(reader)), Schemas(writer))
    framed = [None if value is None else frame(0, datum(writer, value)) for value in values]
    found = decoder.decode(framed)
    found.column.validate(full=True)
    assert found.column.type == decoder.arrow
    return found


def of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "ns.R", "fields": [{"name": "f", "type": kind}]}


ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)
DEC = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 4}
EVERY_TYPE: list[tuple[Any, Any, Any, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -5, pa.int32(), -5),
    ("long", 1 << 40, pa.int64(), 1 << 40),
    ("float", 0.5, pa.float32(), 0.5),
    ("double", 0.1, pa.float64(), 0.1),
    ("string", "grüße", pa.string(), "grüße"),
    ("bytes", b"\x00\xff", pa.binary(), b"\x00\xff"),
    (FIXED, b"abcd", pa.binary(), b"abcd"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "string", "logicalType": "uuid"}, ID, pa.string(), str(ID)),
    (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        ID.bytes,
        pa.string(),
        str(ID),
    ),
    (DEC, Decimal("-12.34"), pa.decimal128(10, 2), Decimal("-12.34")),
    ({**FIXED, **DEC, "precision": 9, "type": "fixed"}, Decimal("7.00"), pa.decimal128(9, 2), 7),
    ({"type": "int", "logicalType": "date"}, date(1969, 12, 31), pa.date32(), date(1969, 12, 31)),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        NOON,
        pa.timestamp("us", tz="UTC"),
        NOON,
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        NOON + timedelta(microseconds=7),
        pa.timestamp("us", tz="UTC"),
        NOON + timedelta(microseconds=7),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        NOON.replace(tzinfo=None),
        pa.timestamp("us"),
        NOON.replace(tzinfo=None),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        NOON.replace(tzinfo=None),
        pa.timestamp("us"),
        NOON.replace(tzinfo=None),
    ),
    ({"type": "long", "logicalType": "timestamp-nanos"}, 5, pa.int64(), 5),
    ({"type": "int", "logicalType": "time-millis"}, 5, pa.int32(), 5),
    ({"type": "array", "items": "int"}, [1, 2], pa.list_(pa.field("element", pa.int32())), [1, 2]),
    (
        {"type": "map", "values": ["null", "long"]},
        {"a": 1, "b": None},
        pa.map_(pa.string(), pa.int64()),
        [("a", 1), ("b", None)],
    ),
    (["null", "string"], None, pa.string(), None),
    (["int"], 3, pa.int32(), 3),
    (["null", "int", "long"], 3, pa.int64(), 3),
    (["float", "double"], 0.5, pa.float64(), 0.5),
    ("null", None, pa.string(), None),
    (
        ["null", "int", "string"],
        "x",
        pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
        {"member0": None, "member1": "x"},
    ),
    (
        {"type": "record", "name": "I", "fields": [{"name": "g", "type": ["null", "int"]}]},
        {"g": 4},
        pa.struct([("g", pa.int32())]),
        {"g": 4},
    ),
]


@pytest.mark.parametrize(("avro", "value", "arrow", "read"), EVERY_TYPE)
def test_every_type_as_a_field(avro: Any, value: Any, arrow: Any, read: Any) -> None:
    found = decoded(of(avro), of(avro), [{"f": value}, None, {"f": value}])
    assert found.column.type == pa.struct([("f", arrow)])
    assert found.column.to_pylist() == [{"f": read}, None, {"f": read}]
    assert found.poison == ()


@pytest.mark.parametrize("avro", [one for one, _, _, _ in EVERY_TYPE], ids=str)
def test_spark_has_exactly_the_type_of_the_column(avro: Any) -> None:
    """Spark takes batches only of the Arrow schema that it makes of the declared one."""
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

    utc: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    )

    arrow = ReaderSchema(json.dumps(of(avro))).kind().arrow
    declared = from_arrow_type(arrow, prefer_timestamp_ntz=True)
    assert to_arrow_type(declared, **utc).equals(arrow)


A = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}
UNION = ["null", A, B, {"type": "map", "values": "int"}, {"type": "enum", "name": "E",
         "symbols": ["s"]}, "string", {"type": "array", "items": "A"}, "long", "double",
         "boolean", FIXED, "bytes"]  # fmt: skip
IN_UNION: list[tuple[Any, int, Any]] = [
    (("ns.A", {"x": 1}), 0, {"x": 1}),
    (("ns.B", {"x": 1}), 1, {"x": 1}),
    ({"x": 1}, 2, [("x", 1)]),
    (("ns.E", "s"), 3, "s"),
    ("t", 4, "t"),
    ([{"x": 1}], 5, [{"x": 1}]),
    (7, 6, 7),
    (0.5, 7, 0.5),
    (True, 8, True),
    (("ns.F", b"abcd"), 9, b"abcd"),
    (b"abcde", 10, b"abcde"),
]


def test_a_union_keeps_which_of_its_types_was_written() -> None:
    """Two records with the same fields, an enum and a string, a fixed and bytes: their values alone
    do not say which one was written."""
    # fastavro takes a plain dict for the first record that fits; a map is written by its index
    values = [value for value, at, _ in IN_UNION if at != 2]
    for writer in (of(UNION), {**of(UNION), "doc": "another schema, so that it is resolved"}):
        if "doc" in writer:
            values.pop()  # fastavro resolves bytes to the string of such a union (docs/limits.md)
        found = decoded(of(UNION), writer, [*({"f": value} for value in values), {"f": None}])
        assert found.poison == ()
        read = [row["f"] for row in found.column.to_pylist()]
        expected = [(at, value) for _, at, value in IN_UNION if at != 2][: len(values)]
        assert [{k: v for k, v in row.items() if v is not None} for row in read[:-1]] == [
            {f"member{at}": value} for at, value in expected
        ]
        assert read[-1] is None
    as_map = bytes([3 << 1]) + datum({"type": "map", "values": "int"}, {"x": 1})
    decoder = ValueDecoder(ReaderSchema(json.dumps(of(UNION))), Schemas(of(UNION)))
    (row,) = decoder.decode([frame(0, as_map)]).column.to_pylist()
    assert row["f"]["member2"] == [("x", 1)]


def test_writers_without_the_union_of_the_reader_and_the_other_way_round() -> None:
    plain = {**of(A), "doc": "1"}
    assert decoded(of(["null", A, B]), plain, [{"f": {"x": 1}}]).column.to_pylist() == [
        {"f": {"member0": {"x": 1}, "member1": None}}
    ]
    with_union = {
        **of(UNION),
        "fields": [{"name": "f", "type": ["null", A]}, {"name": "g", "type": ["int", "string"]}],
    }
    reader = {
        **of(A),
        "fields": [{"name": "f", "type": A}, {"name": "g", "type": ["int", "string"]}],
    }
    found = decoded(reader, with_union, [{"f": {"x": 1}, "g": "s"}])
    assert found.column.to_pylist() == [{"f": {"x": 1}, "g": {"member0": None, "member1": "s"}}]
    assert found.poison == ()


def test_older_and_newer_writers_are_read_by_the_readers_schema() -> None:
    reader = {
        "type": "record",
        "name": "ns.R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "who", "type": "string", "aliases": ["user"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "price", "type": DEC, "default": "\u0064"},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["new"]},
        ],
    }
    old = {
        "type": "record",
        "name": "ns.R",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "user", "type": "string"},
            {"name": "gone", "type": "bytes"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    found = decoded(reader, old, [{"id": 1, "user": "ann", "gone": b"x", "at": NOON}])
    assert found.column.to_pylist() == [
        {"id": 1, "who": "ann", "at": NOON, "price": Decimal("1.00"), "tags": ["new"]}
    ]


@pytest.mark.parametrize(
    ("wrote", "reads", "says"),
    [
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "the field f was written as timestamp-millis and is read as timestamp-micros",
        ),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}, "written as a number"),
        ({**DEC, "scale": 4}, ["null", DEC], "decimal of scale 4 and is read as a decimal of sca"),
        (
            {"type": "array", "items": {"type": "map", "values": {**DEC, "scale": 0}}},
            {"type": "array", "items": {"type": "map", "values": DEC}},
            "the field f was written as a decimal of scale 0",
        ),
    ],
)
def test_other_units_are_not_read_as_ours(wrote: Any, reads: Any, says: str) -> None:
    """Avro's resolution matches a field in milliseconds with one in microseconds: every date came
    out in January 1970, and each amount 100 times too small, without an error."""
    decoder = ValueDecoder(ReaderSchema(json.dumps(of(reads))), Schemas(of(wrote)))
    found = decoder.decode([frame(0, b"\x02\x02\x00")])
    assert says in found.poison[0].why
    assert found.column.to_pylist() == [None]


def test_poison_is_null_and_says_why() -> None:
    schema = of("string")
    good = frame(0, datum(schema, {"f": "x"}))
    decoder = ValueDecoder(ReaderSchema(json.dumps(schema)), registry := Schemas(schema))
    values = [b"", good, b"\x00", b'{"json": 1}', None, frame(7, b""), good[:-1], good + b"!",
              frame(7, b""), memoryview(good)]  # fmt: skip
    found = decoder.decode(values)
    assert [row and row["f"] for row in found.column.to_pylist()] == [
        None, "x", None, None, None, None, None, None, None, "x",
    ]  # fmt: skip
    said = {one.row: (one.schema_id, one.why) for one in found.poison}
    assert sorted(said) == [0, 2, 3, 5, 6, 7, 8]
    assert said[5] == (7, "the registry knows no schema 7")
    assert "begins with byte 0, not 123" in said[3][1]
    assert "1 bytes are left over" in said[7][1]
    assert registry.asked == [0, 7], "a schema is asked for once, known or not"


@pytest.mark.parametrize(
    ("avro", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1 << 62),
        ({**DEC, "precision": 3, "scale": 0}, b"\x7f\xff"),
    ],
)
def test_a_value_beyond_its_column_is_poison_alone(avro: Any, value: Any) -> None:
    plain = {key: one for key, one in avro.items() if key != "logicalType"}
    decoder = ValueDecoder(ReaderSchema(json.dumps(of(avro))), Schemas(of(avro)))
    small = 5 if avro["type"] == "long" else b"\x05"
    values = [frame(0, datum(of(plain), {"f": one})) for one in (small, value, small)]
    found = decoder.decode(values)
    assert [row is None for row in found.column.to_pylist()] == [False, True, False]
    assert [(one.row, one.schema_id) for one in found.poison] == [(1, 0)]


def test_a_registry_in_trouble_is_no_fault_of_the_values() -> None:
    class Down(Schemas):
        def schema_by_id(self, schema_id: int) -> Schema:
            raise ConnectError("http://registry:8081", "connect", "refused")

    class Refuses(Schemas):
        def schema_by_id(self, schema_id: int) -> Schema:
            raise RegistryError(401, 40101, "who are you?")

    for registry, error in ((Down(), ConnectError), (Refuses(), RegistryError)):
        decoder = ValueDecoder(ReaderSchema(json.dumps(of("int"))), registry)
        with pytest.raises(error):
            decoder.decode([frame(0, b"\x02")])


@pytest.mark.parametrize(
    ("avro", "says"),
    [
        ("nothing", "cannot be read with"),
        (["null", "ns.R"], "contains itself"),
        ({**DEC, "precision": 50}, "a decimal of 50 digits is more than the 38"),
    ],
)
def test_a_readers_schema_that_spark_cannot_have(avro: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        ReaderSchema(json.dumps(of(avro))).kind()


def test_schemas_that_refer_to_others() -> None:
    inner = json.dumps({"type": "record", "name": "ns.I", "fields": [
        {"name": "d", "type": DEC}]})  # fmt: skip
    schemas = Schemas(of("ns.I"), references={"ns.I": inner})
    decoder = ValueDecoder(ReaderSchema(json.dumps(of("ns.I")), (inner,)), schemas)
    found = decoder.decode([frame(0, b"\x02\x64")])
    assert found.column.to_pylist() == [{"f": {"d": Decimal("1.00")}}]


FIELDS = {
    "a": (["null", "int"], st.none() | st.integers(-(1 << 31), (1 << 31) - 1)),
    "b": ("string", st.text(max_size=5)),
    "c": ({"type": "array", "items": ["null", "bytes"]},
          st.lists(st.none() | st.binary(max_size=3), max_size=3)),
    "d": ("double", st.floats(allow_nan=False)),
    "e": ({"type": "map", "values": {"type": "array", "items": "boolean"}},
          st.dictionaries(st.text(max_size=3), st.lists(st.booleans(), max_size=10), max_size=3)),
}  # fmt: skip
NESTED = {
    "type": "record",
    "name": "N",
    "fields": [
        {"name": name, "type": kind} for name, (kind, _) in FIELDS.items()
    ] + [{"name": "in", "type": ["null", {"type": "record", "name": "M", "fields": [
        {"name": "z", "type": ["long", "string"]}]}]}],
}  # fmt: skip
VALUES = st.fixed_dictionaries(
    {name: values for name, (_, values) in FIELDS.items()}
    | {"in": st.none() | st.fixed_dictionaries({"z": st.integers(0, 9) | st.text(max_size=3)})}
)


@given(st.lists(st.none() | VALUES, max_size=20))
def test_columns_hold_what_was_written(values: list[Any]) -> None:
    """Also at every place where a bit or an offset of a buffer could be wrong."""
    expected = [
        value
        and value
        | {
            "e": list(value["e"].items()),
            "in": value["in"]
            and {"z": {"member0": None, "member1": None} | {
                f"member{int(isinstance(value['in']['z'], str))}": value["in"]["z"]}},
        }
        for value in values
    ]  # fmt: skip
    assert decoded(NESTED, NESTED, values).column.to_pylist() == expected
