"""Workers begin their collection apart, and end with one order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import ROOT
from shared_collection import begin_apart, beginning


def config_of(worker: str | None, *args: str) -> Any:
    found = SimpleNamespace(rootpath=ROOT, args=list(args))
    if worker is not None:
        found.workerinput = {"workerid": worker, "workercount": 4}
    return found


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 8))
def test_the_first_begins_at_the_first_and_no_two_share_a_long_part(
    weights: list[int], workers: int
) -> None:
    starts = [beginning(weights, number, workers) for number in range(workers)]
    assert starts[0] == 0
    assert starts == sorted(starts) or starts[-1] == 0  # the last part may be the longest
    total = sum(weights)
    for number, start in enumerate(starts):
        if start:
            assert sum(weights[:start]) * workers >= total * number


def test_each_worker_has_every_folder_once_and_another_first() -> None:
    orders = []
    for number in range(4):
        config = config_of(f"gw{number}", "tests")
        begin_apart(config)
        orders.append(config.args)
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert len({order[0] for order in orders}) == 4
    assert all(len(order) == len(set(order)) for order in orders)


@pytest.mark.parametrize(
    ("worker", "args"),
    [(None, ["tests"]), ("gw1", ["tests/log"]), ("gw1", ["tests/log", "tests/net"])],
)
def test_what_was_named_on_the_command_line_stays(worker: str | None, args: list[str]) -> None:
    config = config_of(worker, *args)
    begin_apart(config)
    assert config.args == args
