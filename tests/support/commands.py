"""Calling commands in this process, as the console script would."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tallymark.errors import UserError


def run_command(command: click.Command, *words: str, code: int = 0) -> Result:
    """The command's result; raises the UserError that it ended with, or fails if it ended with
    another code than ``code`` or another exception."""
    result = CliRunner().invoke(command, list(words))
    if isinstance(result.exception, UserError):
        raise result.exception
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import it into a module whose commands must find no settings: its tests run in an empty
    folder, which is their home too."""
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
