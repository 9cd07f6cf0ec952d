"""``tallymark audit repair`` says what is true: what can be copied, what not, and where it lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from judged_world import World, heartbeats, publisher, steady, world_in

from tallymark.errors import UserError
from tallymark_audit.cli import command
from tallymark_audit.cli import repair as mending
from tallymark_audit.events.events import Copied, Gap
from tallymark_audit.judge.verdicts import State

EDGE = "dc1-to-aggregate"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world_in(tmp_path) as made:
        monkeypatch.setattr(mending, "OpenedClusters", lambda *_: made)
        monkeypatch.setattr(mending, "wall_clock", lambda: made.now)
        yield made


def run(tmp_path: Path, *arguments: str) -> Any:
    settings = ("--settings", str(tmp_path / "tallymark.toml"))
    return CliRunner().invoke(
        command, ["repair", *settings, *arguments], catch_exceptions=False, terminal_width=400
    )


def lose_the_tail(world: World) -> Any:
    """Thirty messages of the aggregate's log."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=4000)
    log = world.clusters["aggregate"].log("t")
    log.cut(len(log.batches) - 3)
    heartbeats(world, one, ms=7000)
    return one


def test_the_dry_run_looks_before_it_promises(world: World, tmp_path: Path) -> None:
    """Thirty messages were lost downstream, and retention has taken twenty of them upstream since:
    "30 messages can be copied; --apply does it", said the dry run."""
    lose_the_tail(world)
    log = world.clusters["dc1"].log("t")
    log.expire(len(log.batches) - 1)
    result = json.loads(run(tmp_path, "--json").output)
    assert result["copyable"] == 10
    assert (
        sum(len(range(a, b + 1)) for one in result["looked"] for a, b in pairs(one["gone"])) == 20
    )
    assert any("retention: t-0 begins at offset" in one["reason"] for one in result["looked"])
    told = run(tmp_path).output
    assert "10 messages can be copied; --apply does it" in told
    assert len(world.clusters["aggregate"].log("t").batches) == 5, "nothing was copied"
    world.clusters["dc1"].away = True
    told = run(tmp_path).output
    assert (
        "0 messages can be copied, 30 more if the clusters that could not be read have them" in told
    )


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def test_a_repair_of_one_topic(world: World, tmp_path: Path) -> None:
    lose_the_tail(world)
    assert "30 messages can be copied" in run(tmp_path, "--topic", "t").output
    one = publisher(world, "dc1", b"b")
    one.publish(world.now, 10, topic="other")
    one.report(world.now)
    world.run(3000)
    assert "nothing is missing" in run(tmp_path, "--topic", "other").output


def test_what_expired_before_the_mirror_had_it_is_said_so(world: World, tmp_path: Path) -> None:
    """The mirror was away longer than dc1 keeps records; it began where the log does, and says so.
    The cell says `expired`, and the plan that they cannot be copied."""
    one = publisher(world, "dc1", b"a")
    for _ in range(4):
        one.publish(world.now, 10)
        one.report(world.now)
        world.run(500)
    log = world.clusters["dc1"].log("t")
    log.expire(2)
    world.mirror("dc1")
    past = Copied("t", 0, "t", "", 40, 20)
    world.mirror_reports("dc1", [Gap("t", 0, 0, 19, "retention", world.now)], [past])
    for _ in range(8):
        heartbeats(world, one, ms=1000)
        world.mirror_reports("dc1")
    rows = world.verdicts(EDGE)
    lost = [row for row in rows.values() if row["state"] == State.LOSS]
    assert sum(row["missing"] for row in lost) == 20
    assert all("deleted upstream before it was copied" in row["reasons"][0] for row in lost)
    result = json.loads(run(tmp_path, "--edge", EDGE, "--json").output)
    assert result["copyable"] == 0
    for item in result["items"]:
        assert "before they were copied (expired)" in item["refused"]
    assert run(tmp_path, "--edge", EDGE, "--apply").exit_code == 3


@pytest.mark.parametrize("flag", ["--apply", "--verify"])
def test_a_plan_that_is_not_there_is_not_made_up(world: World, tmp_path: Path, flag: str) -> None:
    """Somebody reviewed plan.json and typed ``--plan paln.json --apply``: the command made a plan
    of all that was missing, wrote it to that file and carried it out."""
    lose_the_tail(world)
    missing = tmp_path / "paln.json"
    with pytest.raises(UserError, match=r"there is no plan .*paln.json; make it, and read it"):
        run(tmp_path, "--plan", str(missing), flag)
    assert not missing.exists()
    with pytest.raises(UserError, match="says what is repaired; leave out --edge"):
        run(tmp_path, "--edge", EDGE, "--plan", str(missing), flag)
    assert State.LOSS in world.states(EDGE).values()


def test_copies_that_are_left_do_not_make_verify_fail(world: World, tmp_path: Path) -> None:
    """The aggregate lost messages of a window of which it has others twice. Repair brought the
    lost ones, and --verify exited with 3 for the copies, against the docs."""
    one = publisher(world, "dc1", b"a")
    steady(world, one, ms=4000)
    log = world.clusters["aggregate"].log("t")
    log.cut(len(log.batches) - 3)
    again = [(r.key, r.value, r.headers, r.timestamp) for r in log.batches[-1].records()[:5]]
    log.append_records(again)
    heartbeats(world, one, ms=8000)
    plan = tmp_path / "plan.json"
    run(tmp_path, "--edge", EDGE, "--plan", str(plan))
    run(tmp_path, "--plan", str(plan), "--apply")
    heartbeats(world, one, ms=6000)
    assert set(world.states(EDGE).values()) == {State.COMPLETE, State.DUPLICATION}
    result = run(tmp_path, "--plan", str(plan), "--verify", "--timeout", "1")
    assert result.exit_code == 0, result.output
    assert "still DUPLICATION, left as it is" in result.output
