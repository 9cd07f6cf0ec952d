"""What drills leave in their folder: of one that failed all is kept when the next one begins."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tallymark.errors import UserError
from tallymark_audit.proof.drill.evidence import STORY, recorded
from tallymark_audit.proof.drill.planning.leftovers import FAILED, KEPT, OUTCOME
from tallymark_audit.proof.drill.planning.topology import LOCK, SETTINGS, build
from tallymark_audit.proof.drill.scoring.compare import Comparison
from tallymark_audit.proof.drill.scoring.report import DrillOutcome
from tallymark_audit.proof.harness.narrate import Narrator


def begin(folder: Path) -> None:
    """Another drill in the folder."""
    build(folder, []).release()


def outcome(seed: int, *problems: str) -> DrillOutcome:
    return DrillOutcome(seed, (), 0, 1.0, {}, Comparison(()), problems=list(problems))


def drill(folder: Path, *problems: str, seed: int = 3) -> None:
    begin(folder)
    (folder / "dc1").mkdir()
    (folder / "dc1" / "log").write_text("records")
    with recorded(folder, seed, Narrator(Console(file=StringIO()))) as outcomes:
        outcomes.append(outcome(seed, *problems))


def aside(folder: Path) -> list[Path]:
    return sorted((folder / FAILED).iterdir()) if (folder / FAILED).exists() else []


def test_all_of_a_failed_drill_is_kept_when_the_next_one_begins(tmp_path: Path) -> None:
    """One drill had found 61 copies of unknown origin. By the time this was looked into, the next
    one had emptied the folder."""
    drill(tmp_path, "61 copies")
    begin(tmp_path)
    (kept,) = aside(tmp_path)
    assert kept.name.startswith("seed-3-2")
    assert (kept / "dc1" / "log").read_text() == "records"
    assert json.loads((kept / OUTCOME).read_text())["problems"] == ["61 copies"]
    assert {path.name for path in tmp_path.iterdir()} == {FAILED, LOCK, SETTINGS}


def test_nothing_of_a_perfect_drill_is_kept(tmp_path: Path) -> None:
    drill(tmp_path)
    assert json.loads((tmp_path / OUTCOME).read_text())["perfect"] is True
    begin(tmp_path)
    assert aside(tmp_path) == []
    assert not (tmp_path / "dc1").exists()


@pytest.mark.parametrize(
    ("error", "told"), [(UserError("a broker ended"), "a broker ended"), (OSError(), "broken off")]
)
def test_a_drill_that_is_broken_off_has_failed(tmp_path: Path, error: Exception, told: str) -> None:
    begin(tmp_path)
    with pytest.raises(type(error)), recorded(tmp_path, 7, Narrator(Console(file=StringIO()))):
        raise error
    found = json.loads((tmp_path / OUTCOME).read_text())
    assert (found["seed"], found["perfect"]) == (7, False)
    assert told in found["problems"][0]
    begin(tmp_path)
    assert len(aside(tmp_path)) == 1


def test_one_that_is_killed_has_failed(tmp_path: Path) -> None:
    begin(tmp_path)
    with recorded(tmp_path, 7, Narrator(Console(file=StringIO()))):
        assert json.loads((tmp_path / OUTCOME).read_text())["perfect"] is False


def test_the_newest_failed_drills_are_kept(tmp_path: Path) -> None:
    for seed in range(1, KEPT + 3):
        drill(tmp_path, "wrong", seed=seed)
        os.utime(tmp_path / OUTCOME, (seed * 1_000, seed * 1_000))
    begin(tmp_path)
    names = [path.name.rsplit("-", 1)[0] for path in aside(tmp_path)]
    assert names == [f"seed-{seed}" for seed in range(3, KEPT + 3)]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"perfect": false}', "\x00"])
def test_an_outcome_that_is_none_is_not_kept(tmp_path: Path, text: str) -> None:
    begin(tmp_path)
    (tmp_path / OUTCOME).write_text(text)
    begin(tmp_path)
    assert aside(tmp_path) == []


def test_the_story_is_written_down_as_it_is_told(tmp_path: Path) -> None:
    printed = StringIO()
    narrator = Narrator(Console(file=printed, width=40))
    begin(tmp_path)
    with recorded(tmp_path, 1, narrator), narrator.step("traffic"):
        narrator.say("[red]a leader is killed[/], and what is told of that is longer than a line")
        so_far = (tmp_path / STORY).read_text()
    narrator.say("nothing is written any more")
    told = (tmp_path / STORY).read_text()
    assert "1. traffic" in so_far
    assert "    a leader is killed, and what is told of that is longer than a line\n" in so_far
    assert "any more" not in told
    assert "any more" in printed.getvalue()
