"""Log lines as JSON objects."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from tallymark.processes.json_log import JsonLines
from tallymark.processes.supervisor.child import READY


def line(text: str, *arguments: object, **rest: Any) -> str:
    record = logging.LogRecord("a.b", logging.INFO, "x.py", 1, text, arguments, None, **rest)
    return JsonLines().format(record)


def read(text: str, *arguments: object, **rest: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line(text, *arguments, **rest))
    return found


def test_what_is_in_every_line() -> None:
    record = logging.makeLogRecord(
        {"name": "a.b", "levelname": "INFO", "msg": "hello %s", "args": ("you",)}
    )
    record.created, record.msecs = 1_769_860_800.123, 123.4
    assert json.loads(JsonLines().format(record)) == {
        "time": "2026-01-31T12:00:00.123Z",
        "level": "INFO",
        "logger": "a.b",
        "message": "hello you",
    }


@pytest.mark.parametrize(
    ("text", "arguments", "fields"),
    [
        ("opened topic=%s index=%d", ("t", 3), {"topic": "t", "index": 3}),
        ("took seconds=%.2f of %d%% x=%s", (1.234, 5, None), {"seconds": 1.234, "x": None}),
        ("%s and path=%r", ("a", "b c"), {"path": "b c"}),
        ("id=%s", (b"x",), {"id": "b'x'"}),
        ("level=%d message=%s", (7, "m"), {"level_": 7, "message_": "m"}),
        ("settings: log.dirs=%s", ("x",), {"log.dirs": "x"}),
        ("partition=%s-%d", ("t", 1), {"partition": "t"}),
        ("a=b c=%s", ("d",), {"c": "d"}),
        ("no fields", (), {}),
    ],
)
def test_what_is_written_as_name_and_value_is_a_field(
    text: str, arguments: tuple[object, ...], fields: dict[str, object]
) -> None:
    found = read(text, *arguments)
    own = {name: found.pop(name) for name in ("time", "level", "logger", "message")}
    assert own["message"] == text % arguments
    assert own["level"] == "INFO"
    assert found == fields


def test_one_line_whatever_is_in_it() -> None:
    text = line("name=%s", 'line\nbreak "quoted" \x00 ä')
    assert "\n" not in text
    assert json.loads(text)["name"] == 'line\nbreak "quoted" \x00 ä'


def test_an_exception_is_told_in_the_line() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "x.py", 1, "failed", (), sys.exc_info())
    text = JsonLines().format(record)
    assert "\n" not in text
    assert json.loads(text)["error"].endswith("ValueError: no")


def test_the_supervisor_sees_ready_in_both_forms() -> None:
    assert READY.search(line("ready %s", "127.0.0.1:9092").encode())
    assert READY.search(b"2026-01-31T12:00:00.123Z INFO broker: ready 127.0.0.1:9092")
    assert not READY.search(line("not ready").encode())
    assert not READY.search(line("message=%s", "ready").encode())
