"""The machines of ``tallymark.replication`` under simulated faults: a partition on simulated
brokers, named invariants after each step, a plan for each seed.

A failing seed is shrunk and printed with its history. ``simulated_plan`` says what happens,
``simulated_invariants`` what must hold.
"""

from __future__ import annotations

import pytest
from simulated_mutations import MUTATIONS
from simulated_plan import plan_of
from simulated_world import broken_by, run, shortest

SEEDS = 300
IN_A_TEST = 50

FOUND_FROM = {
    "maximal_isr": 282,
    "broker_epoch": 80,
    "epoch_on_the_high_watermark": 374,
    "second_round": 373,
    "least_isr": 0,
    "reading_again": 725,
    "epoch_of_an_answer": 312,
    "start_of_the_epoch": 153,
    "confession": 37,
}
"""The first seed that is tried without the guard: one that found it, so that this is quick."""


def holds(seed: int) -> int:
    """Run a seed; the number of records that were acknowledged."""
    plan = plan_of(seed)
    broken = broken_by(plan)
    if broken is not None:
        shorter = broken_by(shortest(plan)) or broken
        pytest.fail("\n".join([f"seed {seed}: {shorter}", *shorter.__notes__]), pytrace=False)
    return 1


@pytest.mark.parametrize("first", range(0, SEEDS, IN_A_TEST))
def test_whatever_fails_the_invariants_hold(first: int) -> None:
    assert sum(holds(seed) for seed in range(first, first + IN_A_TEST)) == IN_A_TEST


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_whatever_fails_the_invariants_hold_for_long(first: int) -> None:
    assert sum(holds(seed) for seed in range(first, first + 500)) == 500


def test_runs_do_something() -> None:
    """Simulations in which nobody is acknowledged anything would find nothing."""
    worlds = [run(plan_of(seed)) for seed in range(40)]
    assert sum(len(one.check.acknowledged) for one in worlds) > 400
    assert sum(one.registry.state.leader_epoch for one in worlds) > 80
    assert any(one.check.excused for one in worlds)
    history = "\n".join(line for one in worlds for line in one.told())
    for happened in ("cuts", "wishes", "confessed={1:", "has lost its session", "is set aside"):
        assert happened in history, happened


def test_a_seed_replays_equal() -> None:
    for seed in (3, 104, 326):
        assert run(plan_of(seed)).told() == run(plan_of(seed)).told()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_guard_that_is_taken_out_is_missed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these rules of replication is there because some run breaks without it."""
    MUTATIONS[name](monkeypatch)
    seeds = range(FOUND_FROM[name], FOUND_FROM[name] + 1_500)
    assert any(broken_by(plan_of(seed)) for seed in seeds)


def test_a_failing_plan_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS["confession"](monkeypatch)
    plan = next(plan for seed in range(37, 400) if broken_by(plan := plan_of(seed)))
    shorter = shortest(plan)
    assert len(shorter.events) < len(plan.events)
    first, again, repeated = broken_by(plan), broken_by(shorter), broken_by(shorter)
    assert first is not None
    assert again is not None
    assert repeated is not None
    assert again.name == first.name
    assert again.__notes__ == repeated.__notes__
    assert " leads in epoch " in again.__notes__[0]
