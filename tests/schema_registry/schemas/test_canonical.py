"""The canonical text, by a table of what Java's ``Schema.toString()`` writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.schemas import InvalidSchemaError, canonical_text, parse_schema
from tallymark_schema_registry.schemas.json_text import java_double, json_text


def canonical(schema: Any) -> str:
    return canonical_text(parse_schema(json.dumps(schema)))


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("string", '"string"'),
        ({"type": "string"}, '"string"'),
        # A reserved attribute where it has no meaning is dropped, so this is the same int.
        ({"type": "int", "name": "x", "doc": "d"}, '"int"'),
        (
            {"logicalType": "timestamp-millis", "type": "long"},
            '{"type":"long","logicalType":"timestamp-millis"}',
        ),
        (["null", {"type": "string"}], '["null","string"]'),
        ({"items": "int", "type": "array", "p": 1}, '{"type":"array","items":"int","p":1}'),
        ({"type": "map", "values": {"type": "long"}}, '{"type":"map","values":"long"}'),
        (FIXED, '{"type":"fixed","name":"F","size":2}'),
        (
            {"symbols": ["A", "B"], "default": "A", "doc": "d", "x": 1, "aliases": ["a.G"]}
            | {"namespace": "n", "type": "enum", "name": "E"},
            (
                '{"type":"enum","name":"E","namespace":"n","doc":"d","symbols":["A","B"],'
                '"default":"A","x":1,"aliases":["a.G"]}'
            ),
        ),
        (
            record(
                {"cust": 1, "aliases": ["b"], "order": "descending", "default": 1.0, "doc": "d"}
                | {"type": "double", "name": "a"},
                doc="D",
                aliases=["n.Old", "m.Other"],
                namespace="n",
                custom={"k": [None, True]},
            ),
            (
                '{"type":"record","name":"R","namespace":"n","doc":"D","fields":[{"name":"a",'
                '"type":"double","doc":"d","default":1.0,"order":"descending","aliases":["b"],"cust":1}],'
                '"custom":{"k":[null,true]},"aliases":["Old","m.Other"]}'
            ),
        ),
        # The namespace is inherited, and written only where it changes; a use is shortened.
        (
            record(
                {"name": "a", "type": {**FIXED, "namespace": "n"}},
                {"name": "b", "type": "n.F"},
                {"name": "c", "type": {"type": "n.F"}},
                {"name": "d", "type": {**FIXED, "name": "m.G"}, "order": "ascending"},
                {"name": "e", "type": ["null", "m.G", "R"]},
                namespace="n",
            ),
            (
                '{"type":"record","name":"R","namespace":"n","fields":['
                '{"name":"a","type":{"type":"fixed","name":"F","size":2}},'
                '{"name":"b","type":"F"},{"name":"c","type":"F"},'
                '{"name":"d","type":{"type":"fixed","name":"G","namespace":"m","size":2}},'
                '{"name":"e","type":["null","m.G","R"]}]}'
            ),
        ),
        # A definition written twice, the same both times, is written once.
        (
            record({"name": "a", "type": FIXED}, {"name": "b", "type": FIXED}),
            (
                '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F",'
                '"size":2}},{"name":"b","type":"F"}]}'
            ),
        ),
        # No namespace within a namespace is said.
        (
            record({"name": "a", "type": {**FIXED, "namespace": ""}}, namespace="n"),
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":'
                '{"type":"fixed","name":"F","namespace":"","size":2}}]}'
            ),
        ),
        # The text of a float's default becomes a number, of anything else it stays.
        (
            record({"name": "a", "type": "float", "default": "2"}),
            '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":2.0}]}',
        ),
    ],
)
def test_the_canonical_text(schema: Any, text: str) -> None:
    assert canonical(schema) == text
    assert canonical_text(parse_schema(text)) == text


def test_a_type_used_before_it_is_defined_is_written_where_it_is_used_first() -> None:
    """The definition stood where it was sent, so Java's registries had another text, and another
    id, for the same schema."""
    schema = record({"name": "a", "type": "F"}, {"name": "b", "type": FIXED})
    text = canonical(schema)
    assert json.loads(text)["fields"][0]["type"] == FIXED
    assert json.loads(text)["fields"][1]["type"] == "F"
    assert canonical(json.loads(text)) == text


def test_a_text_that_could_not_be_read_again_is_not_written() -> None:
    """Definitions of 200 types that use the next one are flat as they are sent, and nested 200
    deep where each is written at its first use: such a text could be stored, but never read."""
    links = [record({"name": "a", "type": f"R{n + 1}"}, name=f"R{n}") for n in range(200)]
    fields = [
        {"name": f"f{n}", "type": link} for n, link in enumerate([*links, record(name="R200")])
    ]
    with pytest.raises(InvalidSchemaError, match="nested"):
        canonical(record(*fields, name="Top"))
    canonical(record(*fields[150:], name="Top"))


def test_shortening_never_changes_which_type_is_meant() -> None:
    """Java writes the use of a type without namespace by its bare name even where the enclosing
    namespace has a type of that name; read back, the field would be of the other type."""
    plain, spaced = {**FIXED, "namespace": ""}, {**FIXED, "size": 9, "namespace": "n"}
    fields = [
        {"name": "a", "type": plain},
        {"name": "b", "type": spaced},
        {"name": "c", "type": ".F"},
    ]
    text = canonical(record(*fields, namespace="n"))
    assert text.endswith('{"name":"c","type":".F"}]}')
    assert canonical_text(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.1, "1.1"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-1e30, "-1.0E30"),
        (1.5e-300, "1.5E-300"),
        (5e-324, "4.9E-324"),
        (1e-323, "9.9E-324"),
        (2e-5, "2.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert float(text) == value


def test_text_is_escaped_as_jackson_does() -> None:
    assert json_text('a"\\/\b\f\n\r\t\x1f\x7fé漢😀') == '"a\\"\\\\/\\b\\f\\n\\r\\t\\u001F\x7fé漢😀"'
