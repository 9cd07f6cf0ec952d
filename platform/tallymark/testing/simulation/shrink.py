"""Makes a failing plan smaller: fewer faults, fewer clients, a shorter run, the same invariant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tallymark.testing.simulation.plan import Plan
from tallymark.testing.simulation.run import Outcome, run_plan


def shrink(outcome: Outcome, run: Callable[[Plan], Outcome] = run_plan) -> Outcome:
    """The smallest outcome that was found which breaks the same invariant."""
    assert outcome.broken is not None, "it holds"
    wanted = outcome.broken.invariant
    best = outcome
    while True:
        for plan in _smaller(best.plan):
            found = run(plan)
            if found.broken is not None and found.broken.invariant == wanted:
                best = found
                break
        else:
            return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans that are a little smaller, the boldest first."""
    faults = plan.faults
    half = len(faults) // 2
    if half:
        yield replace(plan, faults=faults[half:])
        yield replace(plan, faults=faults[:half])
    for at in range(len(faults)):
        yield replace(plan, faults=faults[:at] + faults[at + 1 :])
    if plan.producers > 1:
        yield replace(plan, producers=1)
    if plan.consumers > 1:
        yield replace(plan, consumers=1)
    if plan.partitions > 1:
        yield replace(plan, partitions=1)
    last = max((fault.at for fault in faults), default=0.0)
    if plan.seconds > last + 2:
        yield replace(plan, seconds=last + 1)
