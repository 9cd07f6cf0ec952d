"""What strangers wrote, where commands and logs show it."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from tallymark.cli.messages.consume import _print
from tallymark.cli.messages.reading.avro_hint import AvroHint
from tallymark.cli.messages.reading.records import Shown
from tallymark.errors import UserError
from tallymark.processes.json_log import JsonLines
from tallymark.processes.process import configure_logging
from tallymark.shell.output import end, print_line, show

CLEAR = "\x1b[2J\u202e"


class _Output(io.TextIOWrapper):
    """Standard output that is a terminal, or a file."""

    def __init__(self, terminal: bool) -> None:
        self.bytes = io.BytesIO()
        self.bytes.isatty = lambda: terminal  # type: ignore[method-assign]
        super().__init__(self.bytes, "utf-8")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_message_does_not_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """``tallymark consume`` of a topic that anybody may write to printed ``ESC ]0;..`` as it was:
    it set the title of the window, and could as well have answered for the keyboard. A file keeps
    every byte."""
    output = _Output(terminal)
    monkeypatch.setattr(sys, "stdout", output)
    message = Shown("t", 0, 0, 0, None, b"a\x1b]0;b\x07", ())
    _print([message], lambda one: bytes(one.value or b"") + b"\n", AvroHint(wanted=False))
    wanted = b"a\\x1b]0;b\\x07\n" if terminal else b"a\x1b]0;b\x07\n"
    assert output.bytes.getvalue() == wanted


def test_tables_lines_and_errors_escape_names(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"name": f"a{CLEAR}\n"}], ("name",), as_json=False)
    show([{"name": f"a{CLEAR}\n"}], ("name",), as_json=True)
    print_line(f"{CLEAR}: deleted")
    with pytest.raises(BaseException):  # noqa: B017, PT011 - click's Exit
        end(0, [UserError(f"no topic {CLEAR}", "look")])
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\x1b" in text or "\\u001b" in text
    assert told.out.startswith("NAME\na\\x1b[2J\\u202e\\n\n")


def test_a_name_begins_no_line_of_the_log() -> None:
    """A client id with a newline wrote a second line into the broker's log, which said that a
    broker was ready."""
    record = logging.LogRecord("x", 20, "", 0, "client=%s", (f"a\n2026 INFO ready{CLEAR}",), None)
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    try:
        configure_logging()
        text = root.handlers[0].format(record)
    finally:
        root.handlers[:] = kept
        root.setLevel(level)
    assert text.isprintable()
    line = JsonLines().format(record)
    assert line.isprintable()
    assert json.loads(line)["client"] == f"a\n2026 INFO ready{CLEAR}"
