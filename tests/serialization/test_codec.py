"""Values and bytes: what fits, what does not, and that wrong bytes only ever give one error."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import avro.io
import avro.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.serialization import AvroCodec, SerializationError, frame, split_frame

LIST = {
    "type": "record",
    "name": "Cell",
    "fields": [{"name": "next", "type": ["null", "Cell"], "default": None}],
}
EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "at", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema and a value of it, of the types that both libraries treat alike."""
    kinds = ["null", "boolean", "long", "double", "bytes", "string", "enum", "fixed"]
    inner = ["array", "map", "record", "optional"] if depth else []
    kind = draw(st.sampled_from(kinds + inner))
    name = "placeholder"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["X", "Y"]}, draw(st.sampled_from("XY"))
    if kind == "fixed":
        size = draw(st.integers(1, 4))
        content = st.binary(min_size=size, max_size=size)
        return {"type": "fixed", "name": name, "size": size}, draw(content)
    if kind == "optional":
        schema, value = draw(nodes(depth=0))
        if schema == "null":
            schema, value = "long", 1
        return ["null", schema], draw(st.sampled_from([None, value]))
    if kind in ("array", "map"):
        schema, value = draw(nodes(depth=depth - 1))
        if kind == "map":
            return {"type": "map", "values": schema}, {"k": value}
        # Items that may take no bytes are refused, see inspection.py.
        return {"type": "array", "items": ["null", "string"]}, [None, "x"]
    if kind == "record":
        made = draw(st.lists(nodes(depth=depth - 1), max_size=3))
        fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(made)]
        schema = {"type": "record", "name": name, "fields": fields}
        return schema, {f"f{i}": value for i, (_, value) in enumerate(made)}
    return kind, draw(VALUES[kind])


def with_own_names(schema: Any, number: Iterator[int]) -> Any:
    """Every named type gets a name of its own."""
    if isinstance(schema, list):
        return [with_own_names(branch, number) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: with_own_names(value, number) for key, value in schema.items()}
    return (
        renamed | {"name": f"T{next(number)}"} if schema.get("name") == "placeholder" else renamed
    )


def pairs() -> st.SearchStrategy[tuple[Any, Any]]:
    return nodes().map(lambda pair: (with_own_names(pair[0], itertools.count()), pair[1]))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(),
    "string": st.text(),
}


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_bytes_are_those_of_the_reference(pair: tuple[Any, Any]) -> None:
    schema, value = pair
    codec = AvroCodec(json.dumps(schema))
    reference = avro.schema.parse(json.dumps(schema))
    stream = io.BytesIO()
    avro.io.DatumWriter(reference).write(value, avro.io.BinaryEncoder(stream))
    assert codec.encode(value) == stream.getvalue()
    assert codec.decode(stream.getvalue()) == value
    stream.seek(0)
    assert avro.io.DatumReader(reference).read(avro.io.BinaryDecoder(stream)) == value


@settings(max_examples=60, deadline=None)
@given(pairs(), st.binary(max_size=40))
def test_any_bytes_decode_or_are_refused(pair: tuple[Any, Any], data: bytes) -> None:
    codec = AvroCodec(json.dumps(pair[0]))
    with contextlib.suppress(SerializationError):
        codec.decode(data)


@settings(max_examples=30, deadline=None)
@given(pairs(), st.data())
def test_a_truncated_or_lengthened_datum_is_refused(pair: tuple[Any, Any], data: Any) -> None:
    codec = AvroCodec(json.dumps(pair[0]))
    datum = codec.encode(pair[1])
    with pytest.raises(SerializationError):
        codec.decode(datum + b"\0")
    if datum:
        cut = data.draw(st.integers(0, len(datum) - 1))
        with pytest.raises(SerializationError):
            codec.decode(datum[:cut])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 1.5),
        ("int", True),
        ("int", 2**31),
        ("long", 2**63),
        ("boolean", 1),
        ("string", b"x"),
        ("string", "\ud800"),
        ("null", 0),
        (EVENT, {"kind": "A"}),
        (EVENT, {"at": 1, "kind": "C"}),
        (EVENT, {"at": 1, "kind": "A", "surplus": 1}),
        (EVENT, [1, None, "A"]),
        (LIST, {"next": {"next": 5}}),
        (LIST, {"other": None}),
    ],
)
def test_values_that_do_not_fit(schema: Any, value: Any) -> None:
    """fastavro by itself writes 1.5 and True as the int 1 and drops surplus fields silently."""
    with pytest.raises(SerializationError, match="does not fit"):
        AvroCodec(json.dumps(schema)).encode(value)


def test_a_field_left_out_takes_its_default() -> None:
    codec = AvroCodec(EVENT)
    value = codec.decode(codec.encode({"at": 1, "kind": "B"}))
    assert value == {"at": 1, "note": None, "kind": "B"}


@pytest.mark.parametrize(
    "schema",
    ["", "int", "{}", "5", "null", '{"type":"what"}', "[" * 100_000]
    + ['{"type":"array","items":' * depth + '"int"' + "}" * depth for depth in (200, 3000)],
)
def test_schemas_that_are_none(schema: str) -> None:
    with pytest.raises(SerializationError):
        AvroCodec(schema)


def test_deep_data_of_a_recursive_type_is_an_error() -> None:
    """A linked list of some thousand cells overflowed fastavro's C stack: the process was gone, by
    a message anybody may write. Recursive types go through the reference implementation."""
    codec = AvroCodec(LIST)
    shallow = {"next": {"next": None}}
    assert codec.decode(codec.encode(shallow)) == shallow
    with pytest.raises(SerializationError, match="nested too deeply"):
        codec.decode(b"\x02" * 1_000_000 + b"\x00")
    value: Any = None
    for _ in range(100_000):
        value = {"next": value}
    with pytest.raises(SerializationError, match="nested too deeply"):
        codec.encode(value)
    while value:  # Freeing it in one go would recurse as deep
        value = value["next"]


EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "items", ["null", {"type": "null"}, {"type": "fixed", "name": "F", "size": 0}, EMPTY]
)
def test_arrays_of_nothing_are_refused(items: Any) -> None:
    """Five bytes can announce 2**34 items that take no bytes: the decoder would fill the memory."""
    with pytest.raises(SerializationError, match="take no bytes"):
        AvroCodec({"type": "array", "items": items})


def test_the_frame() -> None:
    assert frame(258, b"xy") == b"\x00\x00\x00\x01\x02xy"
    schema_id, datum = split_frame(frame(258, b"xy"))
    assert (schema_id, bytes(datum)) == (258, b"xy")
    for wrong in (b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01x"):
        with pytest.raises(SerializationError):
            split_frame(wrong)
