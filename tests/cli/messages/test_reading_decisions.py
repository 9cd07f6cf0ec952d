"""What people write for places, times, partitions and lines."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.cli.messages.reading.records import Shown, as_json, as_line, avro
from tallymark.cli.messages.writing.line_messages import LineFormat, byte_lines
from tallymark.cli.messages.writing.pace import Pace, Rate
from tallymark.errors import UserError
from tallymark.shell.positions import (
    BEGINNING,
    END,
    Position,
    parse_offset,
    parse_partitions,
    parse_time,
)
from tallymark.shell.progress import Meter


@pytest.mark.parametrize(
    ("written", "offset"),
    [("beginning", 10), ("end", 30), ("17", 17), ("3", 10), ("99", 30), ("-5", 25), ("-99", 10)],
)
def test_an_offset_is_within_the_log(written: str, offset: int) -> None:
    assert parse_offset(written).resolve(10, 30, lambda _: None) == offset


def test_a_time_is_the_first_message_from_then_on_or_the_end() -> None:
    noon = parse_time("2026-01-31T12:00:00Z")
    assert noon == Position("time", 1769860800000)
    assert noon.resolve(10, 30, {1769860800000: 12}.get) == 12
    assert noon.resolve(10, 30, lambda _: None) == 30
    assert parse_time("10m", now_ms=1_000_000) == Position("time", 400_000)
    assert (BEGINNING.kind, END.kind) == ("beginning", "end")


@pytest.mark.parametrize("written", ["", "middle", "1.5", "--3", "9" * 19])
def test_what_is_no_offset(written: str) -> None:
    with pytest.raises(UserError, match="is no place in a log"):
        parse_offset(written)


def test_what_is_no_time() -> None:
    with pytest.raises(UserError, match="'yesterday' is not a time; give 2026"):
        parse_time("yesterday")


def test_partitions() -> None:
    assert parse_partitions("0,2-4") == frozenset({0, 2, 3, 4})
    assert parse_partitions(None) is None
    for wrong in ("", "a", "3-1", "1,,2", "-1"):
        with pytest.raises(UserError, match="are no partitions"):
            parse_partitions(wrong)


def test_a_line_has_headers_a_key_and_a_value() -> None:
    form = LineFormat(b":", b"|", b"NULL")
    assert form.parse(b"trace:ab,flag|k:v:w") == (
        b"k",
        b"v:w",
        (("trace", b"ab"), ("flag", None)),
    )
    assert form.parse(b"k:NULL") == (b"k", None, ())
    assert form.parse(b"no key") == (None, b"no key", ())
    assert LineFormat().parse(b"a:b|c") == (None, b"a:b|c", ())
    with pytest.raises(ValueError, match="are no headers"):
        form.parse(b",,|v")


def test_a_header_may_stand_in_brackets() -> None:
    """A line ``[a]:[b]|v`` began with a bracket and ended with one, was read as JSON, and ended the
    command with what the JSON parser said of it."""
    form = LineFormat(None, b"|")
    assert form.parse(b"[a]:[b]|v") == (None, b"v", (("[a]", b"[b]"),))
    assert form.parse(b'[["a","b"]]|v') == (None, b"v", (("a", b"b"),))
    assert form.parse(b"[]|v") == (None, b"v", ())
    with pytest.raises(ValueError, match="is no header"):
        form.parse(b'[["a"]]|v')


@given(
    st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b and b"\r" not in b)), st.data()
)
def test_lines_do_not_depend_on_how_the_bytes_come(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    chunks = [whole[a:b] for a, b in pairwise([0, *cuts, len(whole)])]
    expected = lines[:-1] if lines and not lines[-1] else lines
    assert list(byte_lines(iter(chunks))) == expected
    assert list(byte_lines(iter([b"a\r\n", None, b"b"]))) == [b"a", None, b"b"]
    assert list(byte_lines(iter([b"a\nb"]), cut_short=lambda: True)) == [b"a"]


def test_a_rate_is_held_and_caught_up_with() -> None:
    rate = Rate(10, begun=100.0)
    assert rate.due(0, 100.0) == 0
    assert rate.due(5, 100.0) == pytest.approx(0.5)
    assert rate.due(5, 101.0) == 0
    assert Rate(0, 0).due(99, 0) == 0


def test_the_original_pace_or_a_multiple_of_it() -> None:
    pace = Pace(2.0)
    assert pace.due(5_000, 50.0) == 0
    assert pace.due(7_000, 50.0) == pytest.approx(1.0)
    assert pace.due(4_000, 50.0) == 0
    assert pace.due(7_000, 51.5) == 0
    assert Pace(0).due(10**15, 0) == 0


def test_a_meter_shows_now_and_then() -> None:
    shown: list[tuple[int, str]] = []
    clock = iter([0.0, 0.5, 0.9, 1.0, 1.5, 2.1])
    states = iter([(1, "a"), (2, "b"), (3, "c")])
    meter = Meter(1.0, lambda done, text: shown.append((done, text)), clock=lambda: next(clock))
    for _ in range(5):
        meter.tick(lambda: next(states))
    assert shown == [(1, "a"), (2, "b")]


def test_a_message_as_a_line_and_as_json() -> None:
    message = Shown("t", 1, 7, 5, None, b"\xff", [("h", None), ("tm", b"rubbish")])
    assert as_line(message, ["partition", "offset", "key", "stamp", "headers"]) == (
        b'1\t7\t\t-\t[["h", null]]\t\xff'
    )
    assert as_json(message) == (
        b'{"topic": "t", "partition": 1, "offset": 7, "timestamp": 5, "key": null, '
        b'"value": {"base64": "/w=="}, "headers": [["h", null]]}'
    )


def test_what_is_printed_of_avro_is_json() -> None:
    """A pipe into a parser of JSON broke at a double without a number: Infinity was printed, which
    JSON has not. Bytes were printed as Python writes them."""
    found = {"d": [float("inf"), float("-inf"), float("nan"), 0.5], "b": b"\xff", "t": b"text"}
    decoder: Any = lambda topic, data: found  # noqa: E731
    decode = avro(decoder)
    message = Shown("t", 0, 1, 2, None, b"\0....", ())

    def refuse(word: str) -> None:
        raise AssertionError(word)

    value = json.loads(as_line(message, (), decode), parse_constant=refuse)
    assert value["d"] == ["Infinity", "-Infinity", "NaN", 0.5]
    assert (value["b"], value["t"]) == ({"base64": "/w=="}, "text")
    assert json.loads(as_json(message, decode), parse_constant=refuse)["value"] == value
