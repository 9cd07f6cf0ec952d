"""What is stored was taken once, and is read; what is sent is checked.

One old version with a default that does not fit made every further registration in its subject
fail, with an error about a schema that nobody sent.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.schemas import InvalidSchemaError, incompatibilities, parse_schema


def of_field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


FIXED = {"type": "fixed", "name": "F", "size": 1}
WRONG = [
    of_field("int", default="x"),
    of_field(["null", "int"], default="x"),
    of_field("int", default=None),
    of_field("int", order="up"),
    of_field("int", aliases="b"),
    of_field("float", default="much"),
    of_field("int", name="a-b"),
    of_field("int", name="é"),
    enum("A", "A"),
    enum("a b"),
    enum("A", default="B"),
    {**FIXED, "name": "a-b"},
    {**FIXED, "name": "foo-bar.x.F"},
    {**FIXED, "namespace": "foo-bar.x"},
    {**FIXED, "namespace": "a..b"},
    {**FIXED, "namespace": ".a"},
    {**FIXED, "namespace": "1a"},
    {**FIXED, "aliases": ["a b"]},
    {**of_field("int"), "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "bytes"}]},
    ["int", "int"],
    [FIXED, {**FIXED, "size": 2}],
]


@pytest.mark.parametrize("tree", WRONG)
def test_what_is_refused_when_it_is_sent_is_read_when_it_is_stored(tree: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_schema(json.dumps(tree))
    stored = parse_schema(json.dumps(tree), stored=True)
    assert incompatibilities(stored, stored) == []


def test_a_new_version_is_compared_with_a_wrong_old_one() -> None:
    old = parse_schema(json.dumps(of_field("int", default="x")), stored=True)
    assert incompatibilities(parse_schema(json.dumps(of_field("long"))), old) == []
    (found,) = incompatibilities(parse_schema(json.dumps(of_field("string"))), old)
    assert found.kind == "TYPE_MISMATCH"


def test_a_number_beyond_a_double_is_read_where_it_is_stored() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1e999}]}'
    with pytest.raises(InvalidSchemaError, match="beyond a double"):
        parse_schema(text)
    assert parse_schema(text, stored=True)


@pytest.mark.parametrize(
    "text", ["", "{", '"nothing"', '{"type":"record","name":"R"}', "[" * 5000, '["int",["null"]]']
)
def test_what_nobody_can_understand_is_refused_all_the_same(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_schema(text, stored=True)


@pytest.mark.parametrize("space", ["foo-bar.x", "a..b", ".a", "a.", "1a", "é", "a b"])
@pytest.mark.parametrize("form", ["namespace", "dotted"])
def test_a_namespace_whose_parts_are_no_names_is_refused(space: str, form: str) -> None:
    """It was registered, and Java's consumers then failed on it."""
    own = {"namespace": space} if form == "namespace" else {"name": f"{space}.F"}
    with pytest.raises(InvalidSchemaError, match="in the namespace"):
        parse_schema(json.dumps({**FIXED, **own}))
    # Only what is defined; a name that an alias gives up was taken elsewhere.
    parse_schema(json.dumps({**FIXED, "aliases": [f"{space}.G"]}))
