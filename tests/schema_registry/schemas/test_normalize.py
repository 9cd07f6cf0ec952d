"""``normalize=true``: the texts on the right are what Confluent's own code makes of those on the
left, with Java's Avro 1.12.1."""

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
    incompatibilities,
    normalized,
    parse_schema,
)


def of_field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]}


def normal(tree: Any) -> str:
    return canonical_text(normalized(parse_schema(json.dumps(tree))))


def in_field(rest: str) -> str:
    return f'{{"type":"record","name":"R","fields":[{{"name":"a",{rest}}}]}}'


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (
            {"type": "int", "b": 1, "a": {"d": 1, "c": [{"f": 1, "e": 2}]}},
            '{"type":"int","a":{"c":[{"e":2,"f":1}],"d":1},"b":1}',
        ),
        # A logical type comes first, of a decimal with its precision and scale.
        (
            {"type": "long", "a": 1, "logicalType": "timestamp-millis"},
            '{"type":"long","logicalType":"timestamp-millis","a":1}',
        ),
        (
            {"type": "bytes", "scale": 2, "logicalType": "decimal", "a": 1, "precision": 4},
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":1}',
        ),
        (
            {"type": "bytes", "scale": 0, "logicalType": "decimal", "a": 1, "precision": 4},
            '{"type":"bytes","logicalType":"decimal","precision":4,"a":1,"scale":0}',
        ),
        # One that is not valid is an attribute like others.
        (
            {"type": "int", "logicalType": "timestamp-millis", "a": 1},
            '{"type":"int","a":1,"logicalType":"timestamp-millis"}',
        ),
        (
            {"type": "bytes", "scale": 5, "precision": 4, "logicalType": "decimal"},
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":5}',
        ),
        # Of types an empty doc is none, of fields it stays; aliases by name.
        (
            {**of_field("int", doc="", aliases=["c", "b"]), "doc": "", "aliases": ["o.B", "A"]},
            (
                '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"",'
                '"aliases":["b","c"]}],"aliases":["A","o.B"]}'
            ),
        ),
        (
            {"type": "enum", "name": "n.E", "symbols": ["B", "A"], "aliases": ["n.Z", "B.A", "M"]},
            '{"type":"enum","name":"E","namespace":"n","symbols":["B","A"],"aliases":["B.A","M","Z"]}',
        ),
        ({"type": "error", "name": "R", "fields": []}, '{"type":"record","name":"R","fields":[]}'),
        # Defaults as their type writes them.
        (of_field("double", default=1), in_field('"type":"double","default":1.0')),
        (of_field("float", default=16777217), in_field('"type":"float","default":1.6777216E7')),
        (of_field("float", default=1.1), in_field('"type":"float","default":1.1')),
        (of_field("float", default=0.123456789), in_field('"type":"float","default":0.12345679')),
        (of_field("long", default=1), in_field('"type":"long","default":1')),
        (
            of_field(["double", "null"], default=1),
            in_field('"type":["double","null"],"default":1.0'),
        ),
        (
            of_field({"type": "map", "values": "double"}, default={"b": 1, "a": 2}),
            in_field('"type":{"type":"map","values":"double"},"default":{"a":2.0,"b":1.0}'),
        ),
        (
            of_field({"type": "array", "items": "float"}, default=[1]),
            in_field('"type":{"type":"array","items":"float"},"default":[1.0]'),
        ),
        (
            of_field("int", order="ascending", x={"b": 1, "a": 2}),
            in_field('"type":"int","x":{"a":2,"b":1}'),
        ),
    ],
)
def test_the_normal_form(tree: Any, text: str) -> None:
    assert normal(tree) == text
    assert normal(json.loads(text)) == text


def test_what_confluent_loses_is_kept() -> None:
    """A default of the second branch, and that a type within a namespace has none itself."""
    assert '"default":5' in normal(of_field(["null", "int"], default=5))
    inner = {"type": "fixed", "name": "F", "namespace": "", "size": 1}
    tree = {**of_field(inner), "namespace": "n"}
    assert normal(tree) == canonical_text(parse_schema(json.dumps(tree)))


def test_references_are_not_changed_and_not_written_out() -> None:
    reference = parse_schema(json.dumps({**of_field("int", b=1, a=2), "doc": ""}))
    text = json.dumps({"type": "array", "items": "R", "b": 1, "a": 2})
    schema = normalized(parse_schema(text, None, [reference]))
    assert canonical_text(schema) == '{"type":"array","items":"R","a":2,"b":1}'


def test_random_schemas_mean_the_same_afterwards_and_have_one_normal_form() -> None:
    changed = 0
    for case in cases(seed=3, count=150):
        if case["references"]:
            continue
        for text in case["texts"]:
            try:
                schema = parse_schema(text)
            except InvalidSchemaError:
                continue
            again = normalized(schema)
            normal_text = canonical_text(again)
            changed += normal_text != canonical_text(schema)
            assert canonical_text(normalized(parse_schema(normal_text))) == normal_text
            same(schema, again)
    assert changed > 50


def same(one: Schema, other: Schema) -> None:
    assert bool(incompatibilities(one, other)) == bool(incompatibilities(one, one))
    assert bool(incompatibilities(other, one)) == bool(incompatibilities(one, one))


def test_it_is_bounded() -> None:
    schema = parse_schema(json.dumps([f"{'long' if n else 'int'}" for n in range(2)]))
    with pytest.raises(TooLargeError, match="to normalize"):
        normalized(schema, Budget(1))
