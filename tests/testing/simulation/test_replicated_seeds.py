"""Three whole brokers with three replicas of each partition, under the faults of a seed: what was
acknowledged stays, whatever one broker loses; Jepsen's checks find nothing.

A seed that fails prints what happened, with fewer faults where it still fails with those.
"""

from __future__ import annotations

import pytest
from checks import anomalies
from simulated import operations_of

from tallymark.testing.simulation.plan import POWER, FaultKind, replicated_plan_of
from tallymark.testing.simulation.run import Outcome, run_replicated_seed
from tallymark.testing.simulation.shrink import shrink


def check(seed: int) -> Outcome:
    outcome = run_replicated_seed(seed)
    if outcome.broken is not None:
        pytest.fail(shrink(outcome).told)
    found = anomalies(operations_of(outcome.history))
    assert found == [], outcome.told
    return outcome


@pytest.mark.soak_cases("1", "6", "7", "8", "9", "10")
@pytest.mark.parametrize("seed", range(1, 11))
def test_what_was_acknowledged_stays(seed: int) -> None:
    outcome = check(seed)
    assert len(list(outcome.history.of("acknowledged"))) > 5
    assert len(list(outcome.history.of("polled"))) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(11, 211))
def test_what_was_acknowledged_stays_for_many_seeds(seed: int) -> None:
    check(seed)


def test_plans_have_cuts_between_brokers_and_one_power_failure_at_most() -> None:
    plans = [replicated_plan_of(seed) for seed in range(1, 211)]
    kinds = [fault.kind for plan in plans for fault in plan.faults]
    assert set(kinds) == set(FaultKind)
    assert any(kind in POWER for kind in kinds)
    assert all(sum(each.kind in POWER for each in plan.faults) <= 1 for plan in plans)
    assert {plan.replicas for plan in plans} == {3}


def test_a_replicated_seed_replays_equal() -> None:
    first, again = run_replicated_seed(3), run_replicated_seed(3)
    assert first.history.events == again.history.events


def test_the_lead_moves_when_its_broker_ends() -> None:
    """A run in which nothing fails over would show nothing of replication."""
    epochs = {
        event.facts[2]
        for seed in (3, 4)
        for event in run_replicated_seed(seed).history.of("polled")
    }
    assert len(epochs) > 1, epochs
