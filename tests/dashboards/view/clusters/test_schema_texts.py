"""Versions of a subject side by side."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.clusters.schema_texts import (
    Parsed,
    Text,
    diff_lines,
    pretty,
    previous,
)

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "user", "type": "string"},
    {"name": "device", "type": ["null", "string"], "default": None},
    {"name": "price", "type": "double"},
]


def record(*fields: object, name: str = "Click") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


TEXTS = {
    ("clicks", 1): Text("AVRO", record(*FIELDS[:2])),
    ("clicks", 2): Text("AVRO", record(*FIELDS[:3])),
    ("clicks", 3): Text("AVRO", record(*FIELDS)),
    ("orders", 1): Text(
        "AVRO",
        record({"name": "click", "type": "Click"}, name="Order"),
        (("clicks", 2),),
    ),
    ("circle", 1): Text("AVRO", record(), (("circle", 1),)),
    ("broken", 1): Text("AVRO", "{"),
    ("proto", 1): Text("PROTOBUF", 'syntax = "proto3";'),
}


def parsed() -> Parsed:
    return Parsed(lambda subject, version: TEXTS.get((subject, version)))


@pytest.mark.parametrize(
    ("level", "version", "compatible", "said"),
    [
        ("BACKWARD", 1, None, "the first one"),
        ("BACKWARD", 2, True, ""),
        ("BACKWARD", 3, False, "price"),
        ("FORWARD", 3, True, ""),
        ("FULL_TRANSITIVE", 2, True, ""),
        ("NONE", 3, None, "checks nothing"),
        ("", 3, None, "is not known here"),
        ("SOMETHING", 3, None, "is not known here"),
    ],
)
def test_each_version_is_checked_against_those_before_it(
    level: str, version: int, compatible: bool | None, said: str
) -> None:
    before = previous([1, 2, 3])[version]
    found = parsed().check(level, "clicks", version, before)
    assert found.compatible is compatible
    assert said in found.said + " ".join(found.reasons)
    assert found.other == (2 if compatible is False else 0)


@pytest.mark.parametrize("subject", ["broken", "proto", "circle", "nowhere"])
def test_what_cannot_be_parsed_is_never_called_compatible(subject: str) -> None:
    assert parsed().check("BACKWARD", subject, 1, [1]).compatible is None
    assert parsed().changes(subject, 1, 1) == []


def test_a_schema_that_refers_to_another_is_read_with_it() -> None:
    one = parsed()
    assert one.schema("orders", 1) is not None
    assert '"click"' in one.canonical("orders", 1, TEXTS["orders", 1].text)


def test_changes_are_told_in_the_words_of_schemas() -> None:
    (added,) = parsed().changes("clicks", 1, 2)
    assert added.startswith("+ Click.device: field")


def test_a_diff_shows_lines_around_what_differs_and_says_what_is_left_out() -> None:
    old = "\n".join(f"line {n}" for n in range(40))
    new = old.replace("line 20", "other").replace("line 39", "line 39\nmore")
    found = diff_lines(old, new)
    assert [one.action for one in found].count("…") == 2
    assert ("-", 21, 0, "line 20") in found
    assert ("+", 0, 21, "other") in found
    assert found[-1] == ("+", 0, 41, "more")
    assert diff_lines(old, old) == []


lines = st.lists(st.sampled_from("abcde"), max_size=40)


@given(lines, lines)
def test_a_diff_with_its_lines_leads_from_one_text_to_the_other(
    old: list[str], new: list[str]
) -> None:
    found = diff_lines("\n".join(old), "\n".join(new))
    kept = [one for one in found if one.action in " -"]
    assert all(old[one.old - 1] == one.text for one in kept)
    assert all(new[one.new - 1] == one.text for one in found if one.action in " +")
    removed = {one.old for one in found if one.action == "-"}
    added = {one.new for one in found if one.action == "+"}
    rest = [line for number, line in enumerate(old, 1) if number not in removed]
    assert rest == [line for number, line in enumerate(new, 1) if number not in added]


def test_texts_that_are_no_json_stay_as_they_are() -> None:
    assert pretty("message Order {}") == "message Order {}"
    assert pretty('{"b":1,"a":2}') == '{\n  "b": 1,\n  "a": 2\n}'
    assert pretty("[" * 100_000) == "[" * 100_000
