"""What is refused, and that nothing else than the typed error ever comes out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_schema_registry.schemas import InvalidSchemaError, canonical_text, parse_schema
from tallymark_schema_registry.schemas.budget import MAX_DEPTH


def field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "a type is a name"),
        (5, "a type is a name"),
        ({}, "no type"),
        ({"type": {"type": "string"}}, "no type"),
        ("nothing", "not a defined name"),
        ({"type": "record", "name": "R"}, "no list of fields"),
        ({"type": "record", "fields": []}, "without a name"),
        ({"type": "record", "name": "a-b", "fields": []}, "is not a name"),
        ({"type": "record", "name": "int", "fields": []}, "may not be called"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "has no type"),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, "field without a name"),
        ({"type": "record", "name": "R", "fields": ["a"]}, "field without a name"),
        (field("int", name="a-b"), "is not a name"),
        (field("int", name="é"), "is not a name"),
        (field("int", order="up"), "order"),
        (field("int", aliases="b"), "aliases"),
        (field("int", default="x"), "default"),
        (field("int", default=2**31), "default"),
        (field("long", default=True), "default"),
        (field(["null", "int"], default="x"), "default"),
        (field({"type": "array", "items": "int"}, default=[1, None]), "default"),
        (field({"type": "enum", "name": "E", "symbols": ["A"]}, default=1), "default"),
        (field("float", default="much"), "default"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "twice"),
        ({"type": "enum", "name": "E", "symbols": ["a b"]}, "is not a name"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "default of enum"),
        ({"type": "enum", "name": "E"}, "symbols"),
        ({"type": "fixed", "name": "F"}, "size"),
        ({"type": "fixed", "name": "F", "size": -1}, "size"),
        ({"type": "fixed", "name": "F", "size": True}, "size"),
        ({"type": "array"}, "without items"),
        (["int", "int"], "twice"),
        (["int", ["string"]], "union directly"),
        ([{"type": "map", "values": "int"}, {"type": "map", "values": "long"}], "map twice"),
        (
            [{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}],
            "differently",
        ),
    ],
)
def test_invalid_schemas_are_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        parse_schema(json.dumps(schema))


@pytest.mark.parametrize(
    "text", ["", "int", "{", '{"type":"int",}', '"\\ud800"', "NaN", "[1e999]", "9" * 5000, "\ud800"]
)
def test_text_that_is_no_json(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_schema(text)


@pytest.mark.parametrize(
    "text",
    [
        '// a licence\n"int"',
        '/* a licence\n * of two lines */\n{"type": /* "long" */ "int"}',
        '/**/"int"//\r\n',
        '"int" /* not closed',
    ],
)
def test_comments_are_read_over(text: str) -> None:
    """Java reads files that begin with a licence; they were refused here."""
    assert canonical_text(parse_schema(text)) == '"int"'


def test_what_looks_like_a_comment_in_a_string_stays() -> None:
    text = '// x\n{"type":"int","a":"/* no */ \\" // no"}'
    assert canonical_text(parse_schema(text)) == '{"type":"int","a":"/* no */ \\" // no"}'


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["/*", "//", '"', '"\\', "/*/", '/*"', "/"])
def test_comments_that_are_not_closed_end(part: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_schema("/**/" + part * 300_000 + " x")


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\ud800\\ud800"])
def test_half_of_a_surrogate_pair_is_refused(half: str) -> None:
    """Escaped it got through the parser, and the text had no bytes to make a hash of: a 500."""
    for text in (f'{{"type":"int","a":"{half}"}}', f'{{"type":"int","{half}":1}}'):
        with pytest.raises(InvalidSchemaError, match="surrogate"):
            parse_schema(text)
        with pytest.raises(InvalidSchemaError, match="surrogate"):
            parse_schema(text, stored=True)
    assert canonical_text(parse_schema('{"type":"int","a":"\\ud83d\\ude00"}')).encode()


def nested(depth: int) -> str:
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 3_000, 100_000])
def test_deep_nesting_is_an_error_and_not_a_stack_overflow(depth: int) -> None:
    with pytest.raises(InvalidSchemaError, match=r"nested|deep"):
        parse_schema(nested(depth))


def test_the_deepest_schema_that_is_taken_can_be_written_and_compared() -> None:
    schema = parse_schema(nested(MAX_DEPTH))
    assert canonical_text(schema) == nested(MAX_DEPTH)


def test_a_default_that_holds_itself_is_refused() -> None:
    """A record whose field of its own type has the default {} has no finite default value."""
    with pytest.raises(InvalidSchemaError):
        parse_schema(json.dumps(field("R", default={})))


def test_defaults_of_recursive_and_later_types() -> None:
    later = {"type": "enum", "name": "E", "symbols": ["A"]}
    fields = [
        {"name": "next", "type": ["null", "R"], "default": None},
        {"name": "early", "type": "E", "default": "A"},
        {"name": "late", "type": later},
    ]
    schema = parse_schema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert {name.full for name in schema.names} == {"R", "E"}


def test_any_text_is_a_default_of_an_enum_field() -> None:
    """Java takes it: a registry that does not refuses schemas that are in use."""
    parse_schema(json.dumps(field({"type": "enum", "name": "E", "symbols": ["A"]}, default="B")))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", "1.5"),
        (" 2 ", "2.0"),
        ("3d", "3.0"),
        (".5F", "0.5"),
        ("+1e5", "100000.0"),
        ("NaN", '"NaN"'),
        ("-Infinity", '"-Infinity"'),
        ("1e999", '"Infinity"'),
    ],
)
def test_the_text_of_a_number_is_a_default_of_a_double(text: str, number: str) -> None:
    """ "NaN" became the bare word, which is no JSON: what was stored could not be read again."""
    stored = canonical_text(parse_schema(json.dumps(field("double", default=text))))
    assert stored.endswith(f'"default":{number}}}]}}')
    assert canonical_text(parse_schema(stored)) == stored


KEYS = ["type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases", "doc"]
KINDS = ["record", "enum", "fixed", "array", "map", "int", "string", "null", "R", "A", "order"]
SCHEMA_WORDS = st.sampled_from([*KEYS, *KINDS, "namespace", "logicalType"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SCHEMA_WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SCHEMA_WORDS, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_any_json_parses_or_is_refused(tree: Any) -> None:
    try:
        schema = parse_schema(json.dumps(tree))
    except InvalidSchemaError:
        return
    text = canonical_text(schema)
    assert canonical_text(parse_schema(text)) == text
