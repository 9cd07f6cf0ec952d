"""Shell completion: in a real bash, and by what zsh and fish ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import FishComplete, ShellComplete, ZshComplete
from commands import run_command

from tallymark.cli import completion
from tallymark.cli.main import command as root


def offered(words: list[str], kind: type[ShellComplete] = ZshComplete) -> list[str]:
    """What a shell is offered after ``words``; the last one is incomplete."""
    asked = kind(root, {}, "tallymark", completion.VARIABLE)
    return [item.value for item in asked.get_completions(words[:-1], words[-1])]


@pytest.mark.parametrize("kind", [ZshComplete, FishComplete])
def test_commands_options_and_choices(kind: type[ShellComplete]) -> None:
    assert offered(["top"], kind) == ["topics"]
    assert {"list", "grow", "delete-records"} <= set(offered(["topics", ""], kind))
    assert offered(["topics", "describe", "--boot"], kind) == ["--bootstrap-server"]
    assert {"reconcile", "registry"} <= set(offered(["re"], kind))


def test_no_command_is_loaded_for_the_list_of_commands() -> None:
    """Listing the commands used to import all of them, Spark's and FastAPI's included."""
    code = (
        "import sys; from click.shell_completion import ZshComplete;"
        "from tallymark.cli.main import command;"
        "ZshComplete(command, {}, 'tallymark', 'X').get_completions([], '');"
        "print([n for n in sys.modules if n in ('fastapi', 'pyspark',"
        " 'tallymark.cli.admin.topics')])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "[]"


def test_clusters_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    assert offered(["topics", "list", "--cluster", "dc"]) == ["dc1", "dc2"]
    (tmp_path / "tallymark.toml").write_text("clusters = [")
    assert offered(["topics", "list", "--cluster", "dc"]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    script = run_command(completion.command, shell).output
    assert f"{shell}_complete" in script
    assert completion.VARIABLE in script


@pytest.mark.process
def test_a_real_bash_completes(tmp_path: Path) -> None:
    script = tmp_path / "tallymark.bash"
    script.write_text(run_command(completion.command, "bash").output)
    tallymark = Path(sys.executable).parent / "tallymark"
    typed = f"""
        source {script}
        COMP_WORDS=({tallymark} topics des); COMP_CWORD=2
        _tallymark_completion {tallymark}
        echo "${{COMPREPLY[@]}}"
    """
    told = subprocess.run(
        ["bash", "--norc", "-c", typed], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "describe"
