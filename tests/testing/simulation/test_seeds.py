"""Whole brokers under the faults of a seed: what they promised holds, Jepsen's checks find nothing.

A seed that fails prints what happened. ``python -m tallymark.testing.simulation SEED`` replays it,
with the log of the brokers.
"""

from __future__ import annotations

import pytest
from checks import anomalies
from simulated import operations_of

from tallymark.testing.simulation.plan import FaultKind
from tallymark.testing.simulation.run import Outcome, run_seed
from tallymark.testing.simulation.shrink import shrink

_POWER = (FaultKind.POWER, FaultKind.POWER_AT_WRITE)


def check(seed: int) -> Outcome:
    """Run a seed. Without a flush before the answer a power failure may take acknowledged records
    and give their offsets to others: then the checks of the history say nothing."""
    outcome = run_seed(seed)
    if outcome.broken is not None:
        pytest.fail(shrink(outcome).told)
    plan = outcome.plan
    if plan.flush or not any(fault.kind in _POWER for fault in plan.faults):
        found = anomalies(operations_of(outcome.history))
        assert found == [], outcome.told
    return outcome


@pytest.mark.soak_cases("2", "6", "7", "8", "9", "10")
@pytest.mark.parametrize("seed", range(1, 11))
def test_what_was_promised_holds(seed: int) -> None:
    outcome = check(seed)
    assert len(list(outcome.history.of("acknowledged"))) > 5
    assert len(list(outcome.history.of("polled"))) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(11, 211))
def test_what_was_promised_holds_for_many_seeds(seed: int) -> None:
    check(seed)
