"""A run is its seed: it replays equal, a fault of a broker is found, and its plan is shrunk."""

from __future__ import annotations

import pytest

from tallymark.broker.partitions.partition import Partition
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.invariants import BrokenInvariantError
from tallymark.testing.simulation.plan import Fault, FaultKind, Plan, plan_of
from tallymark.testing.simulation.run import Outcome, run_plan, run_seed
from tallymark.testing.simulation.shrink import shrink


@pytest.mark.parametrize("seed", [3, 5])
def test_a_seed_replays_equal(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.history.digest == second.history.digest
    assert (first.steps, first.seconds) == (second.steps, second.seconds)
    assert first.history.events


def test_another_seed_is_another_run() -> None:
    assert run_seed(3).history.digest != run_seed(5).history.digest


def test_answers_before_the_flush_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard is taken out: with ``flush.before.expose`` answers no longer wait for the disk."""
    monkeypatch.setattr(Partition, "when_exposed", lambda *_: None)
    plan = Plan(7, 1, 1, 1, 1, True, 1 << 30, 3.0, ())
    broken = run_plan(plan).broken
    assert broken is not None
    assert broken.invariant == "no_answer_before_commit"


def test_a_plan_is_shrunk_to_the_fault_that_matters() -> None:
    plan = plan_of(19)
    noise = tuple(Fault(at, FaultKind.RESETS, 1, 1.0, 0) for at in (1.0, 2.0, 3.0))
    killer = Fault(2.5, FaultKind.KILL, 1, 1.0, 0)

    def run(tried: Plan) -> Outcome:
        broken = BrokenInvariantError("it", "broke") if killer in tried.faults else None
        return Outcome(tried, History(lambda: 0.0), broken, (), 0, 0.0)

    smallest = shrink(run(Plan(1, 3, 4, 3, 2, True, 1000, 20.0, (*noise, killer))), run)
    assert smallest.plan.faults == (killer,)
    assert (smallest.plan.producers, smallest.plan.consumers) == (1, 1)
    assert smallest.plan.seconds < 20.0
    assert "kill -9" in str(smallest.plan)
    assert plan == plan_of(19)
