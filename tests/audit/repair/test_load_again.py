"""The part of a repair that is a load: one process, with a plan of exactly that."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.apply import ItemResult
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.load_again import load_again, parted
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.plan_file import read_plan
from tallymark_audit.repair.reloads import reloads_of

LAKE = RepairItem(
    edge="aggregate-to-lake",
    upstream="aggregate",
    downstream="lake",
    key=CellKey("t", 0, 60_000, "web", "ab" * 8),
    topic="t",
    missing=RangeSet([(4, 6)]),
    count=3,
    within=(OffsetRange(2, 100, 200),),
    places=(MissingRun(2, 110, 112, 4, 6),),
)
MIRROR = replace(LAKE, edge="dc1-to-aggregate", upstream="dc1", downstream="aggregate")
UNKNOWN = replace(LAKE, places=(), refused="run the load job once more for aggregate")


class Loads:
    """In place of the process: ends as told, and keeps what it was told to do."""

    def __init__(self, code: int = 0, said: str = "") -> None:
        self.code, self.said = code, said
        self.calls: list[list[str]] = []
        self.plans: list[RepairPlan] = []

    def __call__(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.calls.append(list(arguments))
        self.plans.append(read_plan(Path(arguments[2])))
        return subprocess.CompletedProcess([], self.code, "", self.said)


def test_a_plan_is_copied_and_loaded_in_parts() -> None:
    copied, loaded = parted(RepairPlan(1, (LAKE, MIRROR, UNKNOWN)))
    assert copied.items == (MIRROR, UNKNOWN)
    assert loaded.items == (LAKE,)


def test_the_load_gets_a_plan_of_these_items() -> None:
    run, told = Loads(), list[ItemResult]()
    (result,) = load_again(RepairPlan(1, (LAKE,)), "my.toml", told.append, run)
    assert (result.outcome, result.copied) == ("repaired", LAKE.missing)
    assert told == [result]
    ((name, option, _, *rest),) = run.calls
    assert (name, option, rest) == ("load", "--repair", ["--settings", "my.toml"])
    (again,) = reloads_of(run.plans[0].items)
    assert again.offsets == {2: RangeSet([(110, 112)])}


def test_what_the_load_could_not_do_is_the_reason() -> None:
    run = Loads(1, "starting\nno room on the disk\n  do: make some\n")
    (result,) = load_again(RepairPlan(1, (LAKE,)), None, lambda _: None, run)
    assert (result.outcome, result.copied.size) == ("failed", 0)
    assert result.reason == (
        "tallymark load --repair ended with 1: starting; no room on the disk; do: make some"
    )


def test_without_such_items_nothing_is_started() -> None:
    run = Loads()
    assert load_again(RepairPlan(1, ()), None, lambda _: None, run) == []
    assert not run.calls


def test_the_command_is_there_and_takes_a_plan() -> None:
    """The audit starts it by name: here both are held together."""
    (entry,) = entry_points(group="tallymark.commands", name="load")
    command = entry.load()
    (option,) = [one for one in command.params if one.name == "repair"]
    assert option.opts == ["--repair"]
