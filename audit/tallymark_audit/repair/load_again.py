"""Carry out the part of a repair that is a load: ``tallymark load --repair``, in a process of its
own, since the audit knows neither the lake's formats nor Spark."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tallymark_audit.repair.apply import ItemResult
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.plan_file import write_plan
from tallymark_audit.repair.reloads import is_reload

LAST_LINES = 3
"""Of what a load that failed has printed."""
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def parted(plan: RepairPlan) -> tuple[RepairPlan, RepairPlan]:
    """The plan in two: what is copied, or refused, and what is loaded again."""
    again = tuple(item for item in plan.items if is_reload(item) and not item.refused)
    rest = tuple(item for item in plan.items if item not in again)
    return replace(plan, items=rest), replace(plan, items=again, left=())


def load_again(
    plan: RepairPlan,
    settings: str | None,
    done: Callable[[ItemResult], object],
    run: Run | None = None,
) -> list[ItemResult]:
    """Load the plan's items again, all in one process; ``done`` is called with each. ``settings``
    is the path of the settings file, if one was given. What the load has not brought is the reason
    of each result; the verdicts name it, once the windows are judged again."""
    if not plan.items:
        return []
    with tempfile.TemporaryDirectory(prefix="tallymark-repair-") as folder:
        path = Path(folder) / "plan.json"
        write_plan(plan, path)
        arguments = ["load", "--repair", str(path)]
        arguments += ["--settings", settings] if settings else []
        ended = (run or _run)(arguments)
    why = "" if not ended.returncode else _why(ended)
    results = [_result(item, why) for item in plan.items]
    for one in results:
        done(one)
    return results


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tallymark", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _result(item: RepairItem, why: str) -> ItemResult:
    return ItemResult(item, reason=why) if why else ItemResult(item, copied=item.missing)


def _why(ended: subprocess.CompletedProcess[str]) -> str:
    said = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    told = "; ".join(said[-LAST_LINES:])
    return f"tallymark load --repair ended with {ended.returncode}{': ' if told else ''}{told}"
