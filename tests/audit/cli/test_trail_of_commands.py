"""What people decide and repair by ``tallymark audit`` is in the trail of administrators."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from judged_world import heartbeats, publisher, steady, world_in

from tallymark.trail import COMMANDS_FILE_NAME, PLACE_VARIABLE, record_command
from tallymark_audit.cli import command
from tallymark_audit.cli import repair as mending


def lines_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_accepting_retiring_and_repairing_leave_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window with a loss was accepted on a Friday, its loss repaired on Monday, a reporter that
    was alive retired: the verdicts told that it was done, and not always by whom."""
    with world_in(tmp_path) as world:
        monkeypatch.setattr(mending, "OpenedClusters", lambda *_: world)
        one = publisher(world, "dc1", b"a")
        steady(world, one, ms=4000)
        log = world.clusters["aggregate"].log("t")
        log.cut(len(log.batches) - 3)
        heartbeats(world, one, ms=7000)
        lost = [
            key for key, row in world.verdicts("dc1-to-aggregate").items() if row["state"] == "LOSS"
        ]

        def run(*arguments: str) -> Any:
            settings = ("--settings", str(tmp_path / "tallymark.toml"))
            first, *rest = arguments
            return CliRunner().invoke(command, [first, *settings, *rest], catch_exceptions=False)

        assert run("repair").exit_code == 0
        places = list(tmp_path.rglob(COMMANDS_FILE_NAME))
        assert places == [], "looking changes nothing"
        accepted = run("accept", "dc1-to-aggregate", "t", str(lost[0]), "--note", "known")
        assert accepted.exit_code == 0, accepted.output
        run("repair", "--apply")
        assert run("retire", one.tally.identity.reporter).exit_code == 0
    (path,) = tmp_path.rglob(COMMANDS_FILE_NAME)
    accept, *repairs, retire = lines_in(path)
    assert accept["action"] == "ACCEPT_WINDOW"
    assert accept["who"].startswith("os-user:")
    assert accept["after"]["note"] == "known"
    assert "dc1-to-aggregate" in accept["resource"]["name"]
    assert {line["action"] for line in repairs} == {"REPAIR"}
    assert repairs[0]["after"]["outcome"] in ("repaired", "present", "failed", "gone")
    assert (retire["action"], retire["resource"]["type"]) == ("RETIRE_REPORTER", "reporter")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_trail_that_cannot_be_written_is_told_and_undoes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path))
    record_command(0, "REPAIR", ("partition", "t-0"))
    assert "this is not in the trail" in capsys.readouterr().err
