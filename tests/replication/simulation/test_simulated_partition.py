"""The machines of ``tallymark.replication`` under simulated faults: a partition on simulated
brokers, named invariants after each step, a plan for each seed.

A failing seed is shrunk and printed with its history. ``simulated_plan`` says what happens,
``simulated_invariants`` what must hold.
"""

from __future__ import annotations

import pytest
from simulated_mutations import MUTATIONS
from simulated_plan import FAULTS, plan_of
from simulated_world import broken_by, run, shortest

SEEDS = 300
IN_A_TEST = 50
IN_THE_SOAK = 10_000


def holds(seeds: range) -> None:
    for seed in seeds:
        plan = plan_of(seed)
        broken = broken_by(plan)
        if broken is not None:
            shorter = broken_by(shortest(plan)) or broken
            pytest.fail("\n".join([f"seed {seed}: {shorter}", *shorter.__notes__]), pytrace=False)


@pytest.mark.parametrize("first", range(0, SEEDS, IN_A_TEST))
def test_whatever_fails_the_invariants_hold(first: int) -> None:
    holds(range(first, first + IN_A_TEST))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, IN_THE_SOAK, 500))
def test_whatever_fails_the_invariants_hold_for_long(first: int) -> None:
    holds(range(first, first + 500))


def test_runs_do_something() -> None:
    """Simulations in which nothing is acknowledged, moved or lost would find nothing."""
    worlds = [run(plan_of(seed)) for seed in range(60)]
    assert sum(len(one.check.acknowledged) for one in worlds) > 600
    assert sum(len(one.clients.operations) for one in worlds) > 2_000
    assert sum(one.nodes.state.leader_epoch for one in worlds) > 120
    assert sum(one.nodes.controller_epoch for one in worlds) > 60
    assert any(one.check.unclean_elections for one in worlds)
    history = "\n".join(line for one in worlds for line in one.told())
    for happened in (
        " cuts ",
        " wishes ",
        "may lack a tail",
        "has lost its session",
        "takes its session for dead",
        "does not hear",
        "is set aside",
        "is the controller no more",
        "the reassignment to ",
        "the reassignment is cancelled",
        "deletes a log",
        "has the longest log",
        "is the preferred leader",
        "does not answer",
        " reports broker ",
        " rots",
        "though",
        "resigns: its log cannot be used",
        "is corrupt on this disk",
        *(f"kind='{kind}'" for kind in FAULTS),
    ):
        assert happened in history, happened


def test_a_seed_replays_equal() -> None:
    for seed in (3, 104, 309, 326):
        assert run(plan_of(seed)).told() == run(plan_of(seed)).told()


def test_a_failing_plan_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS["report_of_incomplete_logs"](monkeypatch)
    plan = next(plan for seed in range(400) if broken_by(plan := plan_of(seed)))
    shorter = shortest(plan)
    assert len(shorter.events) < len(plan.events)
    first, again, repeated = broken_by(plan), broken_by(shorter), broken_by(shorter)
    assert first is not None
    assert again is not None
    assert repeated is not None
    assert again.name == first.name
    assert again.__notes__ == repeated.__notes__
    assert " leads in epoch " in again.__notes__[0]
