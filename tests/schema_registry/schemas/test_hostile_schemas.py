"""Schemas that cost far more than their length says: each ends with an answer or a refusal.

A user's generator made a union of 1,200 records (112 kB). Comparing it took half a minute and
1.9 GB.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hostile_schemas import SMALL, Pair, mutated, record, text, wide

from tallymark_schema_registry.schemas import (
    Budget,
    InvalidSchemaError,
    Schema,
    TooLargeError,
    canonical_text,
    compare,
    diff,
    doubts,
    incompatibilities,
    normalized,
    parse_schema,
    resolved_text,
)
from tallymark_schema_registry.schemas.budget import MAX_DEPTH

MIB = 1 << 20


def work(pair: Pair, budget: Budget) -> list[int] | None:
    """All that the registry does with two schemas; None where one of them is refused."""
    try:
        first, second = parse_schema(pair[0], budget), parse_schema(pair[1], budget)
        assert len(canonical_text(second)) < 2 * len(pair[1])
        both = ((second, first), (first, second))
        return [len(incompatibilities(one, other, budget)) for one, other in both]
    except (InvalidSchemaError, TooLargeError):
        return None


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SMALL)
def test_what_it_costs_is_bounded(name: str) -> None:
    """Some of these took minutes, or gigabytes, or ended with a RecursionError, so a 500."""
    budget = Budget()
    pair = SMALL[name]()
    tracemalloc.start()
    try:
        work(pair, budget)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * MIB


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_any_mixture_of_them_is_an_answer_or_a_refusal() -> None:
    for pair in mutated(seed=12, count=40):
        work(pair, Budget())


def test_unions_of_many_records_are_compared_by_name() -> None:
    """Not refused: each record of the writer has one in the reader that can match it."""
    budget = Budget()
    ints, longs = SMALL["unions of records"]()
    assert incompatibilities(parse_schema(longs), parse_schema(ints), budget) == []
    assert budget.left > Budget().left * 0.9


def test_the_largest_honest_schemas_are_not_refused() -> None:
    """30,000 fields, against another version of as many, in both directions."""
    budget = Budget()
    ints, longs = (parse_schema(one, budget) for one in wide(30_000))
    assert incompatibilities(longs, ints, budget) == []
    assert incompatibilities(ints, longs, budget)


@pytest.mark.parametrize(
    ("reader", "writer", "holds"),
    [
        # The namespace of a branch does not matter, the first that fits does.
        (
            [
                {"type": "fixed", "name": "a.F", "size": 1},
                {"type": "fixed", "name": "b.F", "size": 2},
            ],
            {"type": "fixed", "name": "c.F", "size": 2},
            True,
        ),
        ([record("S", [], aliases=["n.R"]), "null"], record("n.R", []), True),
        ([record("S", [], aliases=["n.R"]), "null"], record("m.R", []), False),
        (["string", "double"], "bytes", True),
        (["string", "double"], "long", True),
        (["bytes", "int"], "long", False),
        (
            [{"type": "array", "items": "long"}, {"type": "map", "values": "int"}],
            {"type": "array", "items": "int"},
            True,
        ),
    ],
)
def test_a_union_takes_what_one_of_its_branches_takes(
    reader: object, writer: object, holds: bool
) -> None:
    found = incompatibilities(parse_schema(text(reader)), parse_schema(text(writer)))
    assert (not found) == holds


def test_an_answer_has_a_bounded_length() -> None:
    """1,000 enums with 1,000 symbols each that the reader lacks were an answer of 10 MB."""

    def make(prefix: str) -> str:
        return text(
            record(
                "R",
                [
                    {
                        "name": f"f{n}",
                        "type": {
                            "type": "enum",
                            "name": f"E{n}",
                            "symbols": [f"{prefix}{s}" for s in range(100)],
                        },
                    }
                    for n in range(300)
                ],
            )
        )

    found = incompatibilities(parse_schema(make("A")), parse_schema(make("B")))
    assert len(found) == 100
    assert "and 80 more" in found[0].text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_what_people_are_told_costs_no_more(name: str) -> None:
    for make in (for_report, for_difference, for_doubts, for_normal_form):
        try:
            first, second = (parse_schema(one, stored=True) for one in SMALL[name]())
            make(first, second)
        except (InvalidSchemaError, TooLargeError):
            continue


def for_report(first: Schema, second: Schema) -> None:
    found = compare(second, first, backward=True, forward=True, logical=True)
    assert sum(len(one.message()) for one in found) < MIB


def for_difference(first: Schema, second: Schema) -> None:
    assert sum(len(one.line()) for one in diff(first, second)) < 2 * MIB


def for_doubts(_first: Schema, second: Schema) -> None:
    assert len(doubts(second)) <= 100


def for_normal_form(_first: Schema, second: Schema) -> None:
    assert resolved_text(normalized(second))


def all_of(first: Schema, second: Schema) -> None:
    assert incompatibilities(second, first) == []
    for make in (for_report, for_difference, for_doubts, for_normal_form):
        make(first, second)


def test_the_deepest_records_that_are_taken_go_through_all_of_it() -> None:
    def nested(kind: str) -> Schema:
        tree: object = kind
        for level in range(MAX_DEPTH):
            tree = record(f"R{level}", [{"name": "a", "type": tree}])
        return parse_schema(text(tree))

    all_of(nested("int"), nested("long"))


def test_stored_defaults_that_need_one_another_are_a_refusal() -> None:
    """A record's default leaves out a field whose own default leaves out a field, 2,000 times:
    what is sent is refused; of what is stored nobody had asked."""
    fields = [
        {
            "name": f"f{n}",
            "type": record(f"R{n}", [{"name": "a", "type": f"R{n + 1}", "default": {}}]),
        }
        for n in range(2000)
    ]
    tree = text(record("Top", [*fields, {"name": "last", "type": record("R2000", [])}]))
    with pytest.raises(InvalidSchemaError):
        parse_schema(tree)
    stored = parse_schema(tree, stored=True)
    with pytest.raises(TooLargeError, match="nested"):
        doubts(stored)
    union = text(record("U", [{"name": "u", "type": ["R0", "null"], "default": {}}]))
    with pytest.raises(TooLargeError, match="nested"):
        normalized(parse_schema(union, None, [stored], stored=True))
