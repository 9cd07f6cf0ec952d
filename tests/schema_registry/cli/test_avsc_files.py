"""Files that use each other's types: their order, their references, their types written out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tallymark.errors import UserError
from tallymark_schema_registry.cli.avsc_files import AvscFile, in_order
from tallymark_schema_registry.schemas import canonical_text, parse_schema


def record(name: str, *types: Any, **more: Any) -> str:
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields, **more})


def ordered(**texts: str) -> list[AvscFile]:
    """Files ``NAME.avsc``; each is the subject of its name."""
    return in_order(
        {f"{name}.avsc": text for name, text in texts.items()},
        {f"{name}.avsc": name for name in texts},
    )


def test_each_after_what_it_uses() -> None:
    files = ordered(
        a=record("x.Order", "x.Customer", {"type": "array", "items": "Line"}),
        b=record("Line", "Money", namespace="x"),
        c=record("x.Customer", "string", ["null", "x.Line"]),
        d=record("x.Money", "int"),
    )
    assert [file.subject for file in files] == ["d", "b", "c", "a"]
    uses = {file.subject: file.uses for file in files}
    assert uses == {
        "a": (("x.Customer", "c"), ("x.Line", "b")),
        "b": (("x.Money", "d"),),
        "c": (("x.Line", "b"),),
        "d": (),
    }


def test_written_out_a_file_is_a_schema_by_itself() -> None:
    """It is checked so while the types it uses are not registered yet: each is written where it is
    used first, with its namespace, and by its name afterwards."""
    files = ordered(
        a=record("x.Order", "Line", {"type": "map", "values": "y.Plain"}, ["null", "Line"]),
        b=record("x.Line", "y.Plain", "Bare"),
        c=record("y.Plain", {"type": "enum", "name": "E", "symbols": ["Q"]}),
        d=record("Bare", "int"),
    )
    whole = {file.subject: canonical_text(parse_schema(file.whole)) for file in files}
    assert whole["a"] == (
        '{"type":"record","name":"Order","namespace":"x","fields":[{"name":"f0","type":'
        '{"type":"record","name":"Line","fields":[{"name":"f0","type":{"type":"record",'
        '"name":"Plain","namespace":"y","fields":[{"name":"f0","type":'
        '{"type":"enum","name":"E","symbols":["Q"]}}]}},{"name":"f1","type":{"type":"record",'
        '"name":"Bare","namespace":"","fields":[{"name":"f0","type":"int"}]}}]}},'
        '{"name":"f1","type":{"type":"map","values":"y.Plain"}},'
        '{"name":"f2","type":["null","Line"]}]}'
    )
    assert {file.subject: file.uses for file in files}["b"] == (("y.Plain", "c"), ("Bare", "d"))


def test_a_type_inside_of_another_file() -> None:
    """A file that is the type goes before one that has it somewhere inside."""
    inner = {"type": "fixed", "name": "x.Hash", "size": 4}
    files = ordered(a=record("x.Block", inner), b=record("x.Chain", "x.Hash"))
    assert files[1].uses == (("x.Hash", "a"),)
    own = ordered(a=record("x.Block", inner), b=record("x.Chain", "x.Hash"), z=json.dumps(inner))
    assert next(file for file in own if file.subject == "b").uses == (("x.Hash", "z"),)
    assert next(file for file in own if file.subject == "a").uses == ()


def test_one_type_may_be_that_of_many_subjects() -> None:
    files = ordered(a=record("x.Order", "int"), b=record("x.Order", "int"))
    assert [file.uses for file in files] == [(), ()]


def test_a_file_that_uses_itself_is_fine() -> None:
    (file,) = ordered(a=record("x.Tree", ["null", "Tree"]))
    assert file.uses == ()
    assert canonical_text(parse_schema(file.whole)) == canonical_text(parse_schema(file.text))


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"a": record("A", "B"), "b": record("B", "C"), "c": record("C", "A")}, "in a circle: "),
        ({"a": record("x.A", "Missing")}, "a.avsc uses x.Missing, which neither"),
        ({"a": record("x.A", "y.B"), "b": record("B")}, "a.avsc uses y.B"),
        (
            {"a": record("x.A"), "b": record("A", namespace="x"), "c": record("C", "x.A")},
            "c.avsc uses x.A, which a.avsc and b.avsc both define",
        ),
        ({"a": "{"}, "a.avsc is no schema"),
        ({"a": "[" * 100_000}, "a.avsc is no schema"),
    ],
)
def test_what_cannot_be_ordered(texts: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        ordered(**texts)


def test_the_circle_is_told_in_its_order() -> None:
    with pytest.raises(UserError) as caught:
        ordered(a=record("A", "B"), b=record("B", "C"), c=record("C", "A"))
    told = str(caught.value).split(": ")[1].split(";")[0].split(" uses ")
    assert told[0] == told[-1]
    follows = {"a.avsc": "b.avsc", "b.avsc": "c.avsc", "c.avsc": "a.avsc"}
    assert all(follows[one] == other for one, other in pairwise(told))
