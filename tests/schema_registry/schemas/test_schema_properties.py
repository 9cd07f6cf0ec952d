"""Properties of canonical text and compatibility of generated schemas, beside the avro package."""

from __future__ import annotations

import json
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
from avro_java.generate import cases
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallymark_schema_registry.schemas import (
    InvalidSchemaError,
    Schema,
    canonical_text,
    diff,
    doubts,
    incompatibilities,
    logical_changes,
    parse_schema,
    resolved_text,
)

NAMES = st.sampled_from(["a", "b", "c", "d_1", "_e"])
PRIMITIVES = st.sampled_from(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """Valid schemas without aliases. Every named type has a name of its own in each position, few
    enough that two schemas often share them."""
    kind = draw(
        st.sampled_from(["leaf", "leaf", "array", "map", "enum", "fixed", "record", "union"])
    )
    inner = schemas(depth=depth - 1)
    if kind == "leaf" or depth == 0:
        return draw(PRIMITIVES)
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "map":
        return {"type": "map", "values": draw(inner)}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
        more = draw(st.sampled_from([{}, {"default": symbols[0]}]))
        return {"type": "enum", "name": f"E{depth}", "symbols": symbols, **more}
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{depth}", "size": draw(st.integers(1, 2))}
    if kind == "union":
        return draw(st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True))
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    fields = [{"name": name, **draw(field_types(depth))} for name in names]
    return {"type": "record", "name": f"R{depth}", "namespace": "n", "fields": fields}


@st.composite
def field_types(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"type": draw(schemas(depth=depth - 1))}
    return draw(
        st.sampled_from(
            [
                {"type": "int", "default": 7},
                {"type": ["null", "string"], "default": None},
                {"type": "double", "default": 0.5, "doc": "half"},
                {"type": "string", "default": "é\n", "order": "ignore"},
            ]
        )
    )


def once(tree: Any) -> bool:
    """Whether the generated tree defines each name once: the avro package takes no second one."""
    text = json.dumps(tree)
    return all(text.count(f'"name": "{kind}{level}"') <= 1 for kind in "EFR" for level in range(4))


@settings(max_examples=50, deadline=None)
@given(schemas())
def test_canonical_text_is_idempotent_and_means_the_same(tree: Any) -> None:
    assume(once(tree))
    text = canonical_text(parse_schema(json.dumps(tree)))
    assert canonical_text(parse_schema(text)) == text
    assert canonical_text(parse_schema(json.dumps(json.loads(text), indent=3))) == text
    # What others make of both is the same schema.
    assert avro.schema.parse(text) == avro.schema.parse(json.dumps(tree))
    canonical_form = fastavro.schema.to_parsing_canonical_form
    assert canonical_form(json.loads(text)) == canonical_form(tree)


@settings(max_examples=30, deadline=None)
@given(schemas())
def test_a_schema_reads_its_own_data(tree: Any) -> None:
    assume(once(tree))
    text = json.dumps(tree)
    assert incompatibilities(parse_schema(text), parse_schema(text)) == []


@settings(max_examples=80, deadline=None)
@given(schemas(depth=2), schemas(depth=2))
def test_compatibility_agrees_with_the_avro_package(reader: Any, writer: Any) -> None:
    """Without aliases, where the two are known to differ (see compatibility.py)."""
    assume(once(reader) and once(writer))
    ours = incompatibilities(parse_schema(json.dumps(reader)), parse_schema(json.dumps(writer)))
    checker: Any = avro.compatibility.ReaderWriterCompatibilityChecker
    theirs = checker().get_compatibility(
        avro.schema.parse(json.dumps(reader)), avro.schema.parse(json.dumps(writer))
    )
    compatible = theirs.compatibility is avro.compatibility.SchemaCompatibilityType.compatible
    assert (not ours) == compatible, (ours, theirs.messages)


def test_a_schema_is_the_same_after_it_was_written_and_read() -> None:
    """With references and written out, of what is sent and of what is stored, wrong parts too. Of a
    stored text that defines a type twice, differently, the two readings did not agree."""
    seen = 0
    for case in cases(seed=77, count=500):
        references: list[Schema] = []
        try:
            for text in case["references"]:
                references.append(parse_schema(text, None, references, case["stored"]))
            schemas = [parse_schema(one, None, references, case["stored"]) for one in case["texts"]]
        except InvalidSchemaError:
            continue
        for schema in schemas:
            seen += 1
            text = canonical_text(schema)
            again = parse_schema(text, None, references, case["stored"])
            assert canonical_text(again) == text
            assert diff(schema, again) == []
            assert logical_changes(schema, again) == []
            reads_itself = not incompatibilities(schema, schema)
            assert reads_itself == (not incompatibilities(schema, again))
            whole = resolved_text(schema)
            alone = parse_schema(whole, stored=case["stored"])
            assert resolved_text(alone) == canonical_text(alone) == whole
            assert all(not one.refuses for one in doubts(schema))
    assert seen > 500
