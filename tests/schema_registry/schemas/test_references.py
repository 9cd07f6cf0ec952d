"""Types that another schema defines: known to the parser, and not written out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark_schema_registry.schemas import (
    Budget,
    InvalidSchemaError,
    Schema,
    TooLargeError,
    canonical_text,
    incompatibilities,
    normalized,
    parse_schema,
    resolved_text,
)


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(fields)],
        **more,
    }


def parsed(tree: Any, *references: Schema, stored: bool = False) -> Schema:
    return parse_schema(json.dumps(tree), None, references, stored)


COUNTRY = parsed(record("geo.Country", "string"))
ADDRESS = parsed(record("geo.Address", "string", "Country"), COUNTRY)
CUSTOMER = record("shop.Customer", "geo.Address", ["null", "geo.Country"])


def test_a_referenced_type_is_known_and_not_written_out() -> None:
    customer = parsed(CUSTOMER, ADDRESS)
    text = canonical_text(customer)
    assert json.loads(text)["fields"][0]["type"] == "geo.Address"
    assert canonical_text(parse_schema(text, None, [ADDRESS])) == text
    with pytest.raises(InvalidSchemaError, match=r'"geo.Address" is not a defined name'):
        parse_schema(text)


def test_written_out_it_is_read_without_the_references() -> None:
    customer = parsed(CUSTOMER, ADDRESS)
    alone = parse_schema(resolved_text(customer))
    assert resolved_text(alone) == canonical_text(alone) == resolved_text(customer)
    assert incompatibilities(alone, customer) == incompatibilities(customer, alone) == []


def test_a_change_within_a_reference_is_seen_by_the_check() -> None:
    other = parsed(record("geo.Address", "long", "Country"), COUNTRY)
    (found,) = incompatibilities(parsed(CUSTOMER, other), parsed(CUSTOMER, ADDRESS))
    assert (found.kind, found.path) == ("TYPE_MISMATCH", "/fields/0/type/fields/0/type")


def test_a_type_within_a_reference_may_be_used_and_is_written_out() -> None:
    """As Java does: only the schema that a reference names is left out of the text."""
    outer = parsed(record("Outer", {"type": "enum", "name": "E", "symbols": ["A"]}))
    user = parsed(record("User", "E", "Outer"), outer)
    fields = json.loads(canonical_text(user))["fields"]
    assert fields[0]["type"]["symbols"] == ["A"]
    assert fields[1]["type"] == "Outer"


def test_a_type_that_is_defined_and_referenced_must_be_the_same() -> None:
    again = record("shop.Order", record("geo.Country", "string", doc="said again"))
    text = canonical_text(parsed(again, COUNTRY))
    assert json.loads(text)["fields"][0]["type"] == "geo.Country"
    with pytest.raises(InvalidSchemaError, match=r"geo.Country is defined twice, differently"):
        parsed(record("shop.Order", record("geo.Country", "long")), COUNTRY)


def test_two_references_that_define_a_name_differently_are_refused() -> None:
    other = parsed(record("shop.Site", record("geo.Country", "bytes")))
    with pytest.raises(InvalidSchemaError, match=r"geo.Country is defined twice, differently"):
        parsed(record("X", "shop.Site", "geo.Address"), other, ADDRESS)
    # What is stored was taken once.
    parsed(record("X", "shop.Site", "geo.Address"), other, ADDRESS, stored=True)


def test_a_text_that_repeats_or_names_its_reference_is_that_type() -> None:
    assert canonical_text(parsed("geo.Country", COUNTRY)) == '"geo.Country"'
    assert canonical_text(parsed(record("geo.Country", "string"), COUNTRY)) == '"geo.Country"'


def test_a_reference_that_defines_no_name_helps_nothing_and_harms_nothing() -> None:
    """The name that a reference is given is a label; what counts is the text that it leads to."""
    assert canonical_text(parsed(record("R", "int"), parsed("string"))) == canonical_text(
        parsed(record("R", "int"))
    )


def test_a_recursive_type_may_be_said_again() -> None:
    tree = record("Tree", {"type": "array", "items": "Tree"})
    assert canonical_text(parsed(record("Wood", tree), parsed(tree))).count("Tree") == 1


def test_the_size_of_a_schema_counts_what_it_keeps_alive() -> None:
    """A cache that counted the text alone held 1,000 texts of 100 characters, each with megabytes
    of references."""
    large = parsed(record("Large", "int", doc="x" * 10_000))
    user = parsed(record("User", "Large", "Large"), large)
    assert user.size > large.size > 10_000
    assert normalized(user).size == user.size


def test_references_that_grow_at_each_step_end() -> None:
    """Ten types that use the one below ten times are a text of gigabytes, if each use is written
    out; each type is written once."""
    below = parsed(record("T0", "int"))
    for level in range(1, 40):
        below = parsed(record(f"T{level}", *[f"T{level - 1}"] * 10), below)
    assert len(resolved_text(below)) < 20_000
    assert incompatibilities(below, below) == []


def test_a_long_chain_of_references_is_refused_with_words() -> None:
    below = parsed(record("T0", "int"))
    for level in range(1, 2000):
        below = parsed(record(f"T{level}", f"T{level - 1}"), below)
    with pytest.raises(InvalidSchemaError, match="nested"):
        resolved_text(below)
    with pytest.raises(TooLargeError, match="nested"):
        incompatibilities(below, below)


@pytest.mark.slow
def test_what_references_bring_is_paid_for() -> None:
    """1,000 references of 1 MiB: a response of a gigabyte, and as much time."""
    fields = [f"T{n}" for n in range(1000)]
    large = [parsed(record(name, doc="x" * 100_000)) for name in fields]
    user = parsed(record("R", *fields), *large)
    with pytest.raises(TooLargeError, match="to write out"):
        resolved_text(user)
    many = [parsed(record(f"U{n}", *[f"T{n}"] * 50), large[n]) for n in range(1000)]
    with pytest.raises(TooLargeError):
        parse_schema('"U1"', Budget(200), many)
