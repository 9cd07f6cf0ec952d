"""``tallymark status`` without settings: the stacks that run below ``.tallymark``."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from control_ports import supervisor

from tallymark.cli.stack.down import command as down
from tallymark.cli.stack.stacks import running_stacks
from tallymark.deployment import Deployment, dump_toml
from tallymark.errors import UserError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    return tmp_path


def test_the_stack_of_the_demo_is_found_without_settings(here: Path) -> None:
    """After ``make demo`` somebody typed ``tallymark status`` in the same folder, and read that no
    stack runs here: the demo's is in ``.tallymark/demo``, and only ``.tallymark`` was looked at."""
    with supervisor(here / ".tallymark/demo", "broker-dc1-0"):
        (stack,) = running_stacks()
    assert stack.settings == here / ".tallymark/demo/deployment.toml"
    assert [process["name"] for process in stack.processes] == ["broker-dc1-0"]
    assert stack.ready


def test_all_that_run_are_listed_and_what_was_killed_is_not(here: Path) -> None:
    left_behind = Path(".tallymark/killed/run/control.sock")  # a socket's path has 107 bytes
    left_behind.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left_behind))
    (here / "tallymark.toml").write_text(dump_toml(Deployment(data_dir=here / "elsewhere")))
    with ExitStack() as running:
        for name in (".tallymark", ".tallymark/demo", "elsewhere"):
            running.enter_context(supervisor(here / name))
        found = running_stacks()
    assert [stack.folder.relative_to(here) for stack in found] == [
        Path(".tallymark/demo"),
        Path(".tallymark"),
        Path("elsewhere"),
    ]


def test_settings_in_the_environment_name_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = here / "named.toml"
    named.write_text(dump_toml(Deployment(data_dir=here / "named")))
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(named))
    with supervisor(here / ".tallymark"), pytest.raises(UserError, match="no stack is running"):
        running_stacks()
    with supervisor(here / "named"):
        (stack,) = running_stacks()
    assert stack.folder == here / "named"


def test_nothing_runs(here: Path) -> None:
    with pytest.raises(
        UserError, match=r"no stack is running here: none below .*\.tallymark"
    ) as no:
        running_stacks()
    assert "tallymark up" in str(no.value.do)


def test_down_ends_its_own_stack_only_and_names_the_others(here: Path) -> None:
    """``make demo`` runs in a folder below: it is not what ``tallymark up`` runs here."""
    with supervisor(here / ".tallymark/demo"):
        told = CliRunner().invoke(down, [])
    assert (told.exit_code, told.output.splitlines()) == (
        0,
        [
            f"no stack is running on {here}/.tallymark",
            f"one runs here: tallymark down --settings {here}/.tallymark/demo/deployment.toml",
        ],
    )
