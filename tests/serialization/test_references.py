"""Schemas that take types from others; and stored schemas that are read leniently."""

from __future__ import annotations

import decimal
import json
from typing import Any

import pytest

from tallymark.serialization import AvroCodec, SerializationError
from tallymark.serialization.trees import for_reading, parse

KIND = '{"type":"enum","name":"Kind","namespace":"shop","symbols":["A","B"]}'
LINE = (
    '{"type":"record","name":"Line","namespace":"shop","fields":['
    '{"name":"kind","type":"Kind"},{"name":"count","type":"int"}]}'
)
ORDER = (
    '{"type":"record","name":"Order","namespace":"sales","fields":['
    '{"name":"lines","type":{"type":"array","items":"shop.Line"}},'
    '{"name":"kind","type":["null","shop.Kind"],"default":null},'
    '{"name":"other","type":{"type":"map","values":"shop.Line"}}]}'
)
VALUE = {
    "lines": [{"kind": "A", "count": 2}],
    "kind": "B",
    "other": {"x": {"kind": "B", "count": 1}},
}


def test_types_of_others_are_known() -> None:
    codec = AvroCodec(ORDER, [KIND, LINE])
    assert codec.decode(codec.encode(VALUE)) == VALUE
    assert codec.text == ORDER
    assert codec.name == "sales.Order"
    written_out = AvroCodec(json.dumps(codec.tree))
    assert written_out.encode(VALUE) == codec.encode(VALUE)


@pytest.mark.parametrize(
    ("schema", "value"),
    [('"shop.Line"', VALUE["lines"][0]), ('["null","shop.Line"]', VALUE["lines"][0])],  # type: ignore[index]
)
def test_the_type_of_another_alone(schema: str, value: Any) -> None:
    codec = AvroCodec(schema, [KIND, LINE])
    assert codec.decode(codec.encode(value)) == value


def test_a_type_that_nobody_defines() -> None:
    with pytest.raises(SerializationError, match=r"shop\.Line"):
        AvroCodec(ORDER, [KIND])
    with pytest.raises(SerializationError, match="not valid Avro"):
        AvroCodec(ORDER, [KIND, "nonsense"])


def test_each_type_is_written_out_once_and_keeps_its_name() -> None:
    plain = '{"type":"record","name":"Plain","fields":[{"name":"k","type":"shop.Kind"}]}'
    user = (
        '{"type":"record","name":"User","fields":['
        '{"name":"a","type":"Plain"},{"name":"b","type":"Plain"},{"name":"k","type":"shop.Kind"}]}'
    )
    tree = parse(json.loads(user), [json.loads(KIND), json.loads(plain)]).tree
    text = json.dumps(tree)
    assert text.count('"symbols"') == 1
    assert [field["type"] for field in tree["fields"][1:]] == ["Plain", "shop.Kind"]
    around = '{"type":"record","name":"a.Around","fields":[{"name":"u","type":"b.User"}]}'
    within = (
        '{"type":"record","name":"b.User","fields":[{"name":"p","type":'
        '{"type":"record","name":"Plain","namespace":"","fields":[]}}]}'
    )
    codec = AvroCodec(around, [within])
    assert codec.tree["fields"][0]["type"]["fields"][0]["type"]["name"] == "Plain"


PLAIN = '{"type":"record","name":"Plain","fields":[{"name":"x","type":"int"}]}'
OF_PLAIN = (
    '{"type":"record","name":"Of","namespace":"n","fields":[{"name":"p","type":"Plain"},'
    '{"name":"q","type":{"type":"array","items":["null","Plain"]}}]}'
)


@pytest.mark.parametrize("schema", [OF_PLAIN, f'{{"type":"map","values":{OF_PLAIN}}}'])
def test_a_type_without_a_namespace_is_known_within_one(schema: str) -> None:
    """Java finds and writes it so, and a topic of such a schema could not be read."""
    codec = AvroCodec(schema, [PLAIN])
    value: Any = {"p": {"x": 1}, "q": [None, {"x": 2}]}
    value = {"k": value} if "map" in schema else value
    assert codec.decode(codec.encode(value)) == value
    within = schema.replace('"type":"Plain"}', f'"type":{PLAIN[:-1]},"namespace":""}}}}', 1)
    assert AvroCodec(within).encode(value) == codec.encode(value)
    assert "tallymark__nowhere" not in repr((codec.parsed, codec.known))
    with pytest.raises(SerializationError, match=r"n\.Plain"):
        AvroCodec(schema)


@pytest.mark.parametrize("schema", ['"int"', '"Plain"', '["null","n.Of"]'])
def test_a_schema_that_has_such_types_only_through_others(schema: str) -> None:
    codec = AvroCodec(schema, [PLAIN, OF_PLAIN])
    expected: Any = {'"int"': 0, '"Plain"': {"x": 0}}.get(schema)
    assert codec.decode(b"\x00") == expected


def test_the_nearer_type_is_meant() -> None:
    near = PLAIN.replace('"Plain"', '"n.Plain"').replace("int", "string")
    codec = AvroCodec(OF_PLAIN, [PLAIN, near])
    assert codec.encode({"p": {"x": "a"}, "q": []}) == b"\x02a\x00"


def test_a_recursive_type_of_another() -> None:
    tree = '{"type":"record","name":"t.Tree","fields":[{"name":"next","type":["null","Tree"]}]}'
    forest = '{"type":"array","items":"t.Tree"}'
    codec = AvroCodec(forest, [tree])
    assert codec.recursive
    value = [{"next": {"next": None}}]
    assert codec.decode(codec.encode(value)) == value
    with pytest.raises(SerializationError, match="nested too deeply"):
        codec.decode(b"\x02" * 100_000)


@pytest.mark.parametrize(
    "kind",
    [
        {"name": "a", "type": "int", "default": "x"},
        {"name": "a", "type": {"type": "enum", "name": "K", "symbols": ["A"], "default": "Z"}},
        {"name": "a", "type": "long", "default": 1.0},
    ],
)
def test_stored_is_not_new(kind: dict[str, Any]) -> None:
    """Java takes defaults that do not fit, so topics hold data of such schemas; nobody could read
    them here. What is to be written is checked as before."""
    schema = {"type": "record", "name": "R", "fields": [kind]}
    with pytest.raises(SerializationError):
        AvroCodec(schema)
    assert AvroCodec(schema, stored=True).decode(b"\x00")["a"] in (0, "A")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"precision": 0},
        {"precision": -1},
        {"precision": 2, "scale": 3},
        {"precision": "4"},
        {"precision": 4, "scale": -1},
    ],
)
def test_decimals_that_are_none_are_their_bytes(more: dict[str, Any]) -> None:
    """Avro: an invalid logical type must be ignored."""
    schema = {"type": "bytes", "logicalType": "decimal", **more}
    assert AvroCodec(schema, stored=True).decode(b"\x02\x05") == b"\x05"
    fixed = {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 9}
    assert AvroCodec(fixed, stored=True).decode(b"\x05") == b"\x05"


def test_decimals_are_decimals() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    assert AvroCodec(schema, stored=True).decode(b"\x02\x05") == decimal.Decimal("0.5")


def test_attributes_of_others_are_left_alone() -> None:
    """Only what is a type is looked into."""
    tree = {"type": "int", "default": 5, "symbols": [], "fields": [{"type": "x", "default": 1}]}
    assert for_reading(tree) == tree
    assert for_reading({"type": "array", "items": {"type": "enum", "name": "K", "default": 1}}) == {
        "type": "array",
        "items": {"type": "enum", "name": "K"},
    }
