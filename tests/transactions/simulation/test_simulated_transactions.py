"""The machines of transactions under simulated faults: the coordinator's and its markers, the
producers of a log and their verification, offsets of groups, our client's. Named invariants after
each step, a plan for each seed.

A failing seed is shrunk and printed with its history. ``txn_plan`` says what happens,
``txn_invariants`` what must hold.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from txn_mutations import MUTATIONS
from txn_plan import FAULTS, plan_of
from txn_world import broken_by, run, shortest

SEEDS = 40
IN_A_TEST = 20
IN_THE_SOAK = 10_000


def holds(seeds: range) -> None:
    for seed in seeds:
        plan = plan_of(seed)
        broken = broken_by(plan)
        if broken is not None:
            shorter = broken_by(shortest(plan)) or broken
            pytest.fail("\n".join([f"seed {seed}: {shorter}", *shorter.__notes__]), pytrace=False)


@pytest.mark.parametrize("first", range(100, 100 + SEEDS, IN_A_TEST))
def test_whatever_fails_the_invariants_hold(first: int) -> None:
    holds(range(first, first + IN_A_TEST))


@pytest.mark.parametrize("seed", [22746])
def test_what_broke_once_holds(seed: int) -> None:
    """22746: offsets that arrived late, in the next transaction of their producer."""
    holds(range(seed, seed + 1))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, IN_THE_SOAK, 500))
def test_whatever_fails_the_invariants_hold_for_long(first: int) -> None:
    holds(range(first, first + 500))


def test_runs_do_something() -> None:
    """Simulations in which nothing is committed, aborted, fenced or copied would find nothing."""
    worlds = [run(plan_of(seed)) for seed in range(20)]
    counts: Counter[str] = Counter()
    for world in worlds:
        counts.update(world.check.counts)
    assert counts["committed"] > 500
    assert counts["aborted"] > 200
    assert counts["PREPARE_COMMIT"] > 200
    assert counts["PREPARE_ABORT"] > 100
    assert counts["written"] > 1_000
    assert counts["fatal"] > 20
    assert sum(len(world.copied) for world in worlds) > 200
    history = "\n".join(line for world in worlds for line in world.told())
    for happened in (
        " has epoch ",
        "a coordinator in epoch 3",
        "PRODUCER_FENCED",
        "TRANSACTION_ABORTABLE",
        "INVALID_PRODUCER_EPOCH",
        "not delivered in time",
        *(f"kind='{kind}'" for kind in FAULTS),
    ):
        assert happened in history, happened


def test_a_seed_replays_equal_in_another_process() -> None:
    """An order of a set that differs between processes made one seed fail now and then."""
    code = (
        "from txn_plan import plan_of; from txn_world import run; print(run(plan_of(126)).told())"
    )
    support = Path(__file__).parents[2] / "support"
    folders = ("simulated_transactions", "simulated_partition", "histories")
    path = os.pathsep.join((*(str(support / each) for each in folders), *sys.path))
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout.strip() == str(run(plan_of(126)).told())


def test_a_failing_plan_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS["order_of_pending_offsets"](monkeypatch)
    plan = plan_of(4)
    shorter = shortest(plan)
    assert len(shorter.events) < len(plan.events)
    first, again = broken_by(plan), broken_by(shorter)
    assert first is not None
    assert again is not None
    assert again.name == first.name
    assert shorter.events
    assert str(shorter) in again.__notes__[0]
