"""The console script: exit codes, and one line instead of a traceback."""

import sys

import click
import pytest

from tallymark.cli import main as cli
from tallymark.cli.commands import COMMANDS
from tallymark.errors import UserError


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tallymark", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> type[Exception]:
    """Makes ``tallymark status`` raise whatever is put into ``raised``."""

    class Raised(Exception):
        error: BaseException

    @click.command("status")
    def broken() -> None:
        raise Raised.error

    monkeypatch.setattr(cli, "_load", lambda name, target: broken)
    return Raised


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (click.exceptions.Exit(3), 3, ""),
        (UserError("the disk is full", "make room", exit_code=4), 4, "the disk is full; make room"),
        (KeyError("x"), 70, "unexpected KeyError"),
        (click.UsageError("no such thing"), 2, "no such thing"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_how_commands_end(
    error: BaseException,
    code: int,
    said: str,
    raising: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reconciliation that found a loss ended with 0: click hands the code of ctx.exit() back as
    a value when it is not standalone, and the console script threw it away."""
    raising.error = error  # type: ignore[attr-defined]  # the fixture's class has it
    assert run(monkeypatch, "status") == code
    output = capsys.readouterr()
    assert said in output.err
    assert "Traceback" not in output.err


def test_bytes_that_are_no_text_are_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``tallymark schema register $'\\xff' click.avsc`` (a name in Latin-1) was "unexpected
    UnicodeEncodeError ... this is a bug", with code 70."""

    @click.command("status")
    @click.argument("name")
    def encoding(name: str) -> None:
        (name if name != "typed" else "not \udcfc typed").encode()

    monkeypatch.setattr(cli, "_load", lambda name, target: encoding)
    assert run(monkeypatch, "status", "gr\udcfc\udcdfe") == 1
    assert r"'gr\udcfc\udcdfe' is not text in UTF-8; type it in UTF-8" in capsys.readouterr().err
    assert run(monkeypatch, "status", "typed") == 70, "that is a bug of ours"


def test_help_needs_no_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)


def test_an_unknown_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "frobnicate") == 2
