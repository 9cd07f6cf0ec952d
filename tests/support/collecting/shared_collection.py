"""Several workers collect the same tests at the same time, each for itself.

On a clean checkout each of them would rewrite and compile all files, in the same order and at the
same moment: four times the work of one. So each worker begins at another folder. What it has
compiled is in ``__pycache__`` when the others come there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def begin_apart(config: pytest.Config) -> None:
    """Let this worker begin at its own part of tests/. Nothing changes where folders or files are
    named on the command line, and outside of workers."""
    worker = getattr(config, "workerinput", None)
    if worker is None or len(config.args) != 1:
        return
    (root,) = (Path(config.rootpath, each) for each in config.args)
    if root != config.rootpath / "tests":
        return
    parts = [each for each in sorted(root.iterdir()) if _tests_in(each)]
    number = int(worker["workerid"].removeprefix("gw"))
    weights = [_tests_in(each) for each in parts]
    start = beginning(weights, number, worker["workercount"])
    config.args[:] = [str(each) for each in (*parts[start:], *parts[:start])]


def beginning(weights: Sequence[int], worker: int, workers: int) -> int:
    """The index at which this worker begins: as much lies before it as before its share of all."""
    before = 0
    for index, weight in enumerate(weights):
        if before * workers >= sum(weights) * worker:
            return index
        before += weight
    return 0


def in_one_order(items: list[pytest.Item]) -> None:
    """Sort the tests by file: workers compare their lists, which must be the same."""
    items.sort(key=lambda item: item.path.parts)


def _tests_in(place: Path) -> int:
    """The number of test files in a folder, 1 for a test file, 0 for anything else."""
    if place.is_dir():
        return sum(1 for _ in place.rglob("test_*.py"))
    return int(place.match("test_*.py"))
