"""Random values of random schemas, read as other random schemas by Java's Avro 1.12.1 and by us.

Where Java reads a value, so do we, and the same one. It refuses some that we read: readers whose
aliases make two fields of one.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from typing import Any

import pytest
from avro_java import Case, read
from avro_java.generate import Generator

from tallymark.serialization import AvroCodec, SerializationError
from tallymark.serialization.resolution import Resolution

KNOWN = (
    # A default that Java takes, and we do not.
    "must match schema type",
    # Java reads a record as one of any name; Avro says that their names are the same.
    "is not read as",
    "Schema mismatch",
    "schema mismatch: [",
    "'fields'",
    # The default of a fixed type that has another size; Java fills it up.
    "No default value for field",
    # Records within records, deeper than Python's stack lets us read.
    "the datum is nested too deeply",
    # Bytes that are no text, read as a string.
    "codec can't decode",
    # What no codec of ours takes: arrays of items without bytes, one type "fixed" or "record".
    "take no bytes",
    "string indices must be integers",
)


def test_what_java_reads_we_read_alike() -> None:
    compare(seed=5, count=1500)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 110))
def test_many(seed: int) -> None:
    compare(seed, count=10_000)


pytestmark = pytest.mark.process


def compare(seed: int, count: int) -> None:
    seen: Counter[str] = Counter()
    for answer in read(cases(seed, count)):
        if "read" in answer:
            seen[_compared(answer)] += 1
    assert seen["the same"] > count / 4
    assert seen["known difference"] < count / 15, seen


def cases(seed: int, count: int) -> list[Case]:
    """Pairs of schemas; two thirds of the readers are a later version of the writer."""
    made: list[Case] = []
    for number in range(count):
        make = Generator(seed * 1_000_003 + number, odd=0.0)
        references: list[Any] = []
        names: list[str] = []
        for _ in range((0, 0, 1, 0, 2)[number % 5]):
            references.append(make.schema(names))
            names += make.names(references[-1])
        writer = make.schema(names)
        reader = make.changed(writer) if number % 3 else make.schema(names)
        made.append(
            {
                "references": [json.dumps(_plain(one)) for one in references],
                "texts": [json.dumps(_plain(writer)), json.dumps(_plain(reader))],
                "stored": False,
            }
        )
    return made


def _compared(answer: dict[str, Any]) -> str:
    try:
        writer, reader = (
            AvroCodec(text, answer["references"], stored=True) for text in answer["texts"]
        )
        expected = reader.decode(bytes.fromhex(answer["read"]))
        reader = AvroCodec(answer["texts"][1], answer["references"])
        found = Resolution(writer, reader).decode(bytes.fromhex(answer["written"]))
    except SerializationError as error:
        known = any(text in str(error) for text in KNOWN)
        return "known difference" if known else pytest.fail(f"{error}: {answer}")
    if _has_text_twice(json.loads(answer["texts"][1])):
        return "known difference"
    assert _same(found, expected), answer
    return "the same"


def _has_text_twice(node: Any) -> bool:
    """Whether a union has both bytes and string. A text is read as the first of them; by Java as
    the type that it has."""
    if isinstance(node, list):
        kinds = {one.get("type") if isinstance(one, dict) else one for one in node if _named(one)}
        return {"bytes", "string"} <= kinds or any(map(_has_text_twice, node))
    return isinstance(node, dict) and any(map(_has_text_twice, node.values()))


def _named(branch: Any) -> bool:
    return isinstance(branch.get("type") if isinstance(branch, dict) else branch, str)


def _same(found: Any, expected: Any) -> bool:
    """A number that is read as a float is rounded to one by Java only."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = found.keys()
        return keys == expected.keys() and all(_same(found[key], expected[key]) for key in keys)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or struct.pack("f", found) == struct.pack("f", expected)
    return type(found) is type(expected) and bool(found == expected)


def _plain(tree: Any) -> Any:
    """Without logical types: random numbers are no dates that Python knows. Without aliases of
    types: where one of an enum is the name of a record, Java renames the record. And without
    defaults of unions: Java writes each as a value of the first branch, whatever it is."""
    if isinstance(tree, list):
        return [_plain(one) for one in tree]
    if isinstance(tree, dict):
        named = tree.get("type") in ("record", "enum", "fixed")
        left_out = ["logicalType"]
        left_out += ["aliases"] if named else []
        left_out += ["default"] if isinstance(tree.get("type"), list) else []
        return {key: _plain(one) for key, one in tree.items() if key not in left_out}
    return tree
