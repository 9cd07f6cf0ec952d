"""Clean stops of whole brokers with three replicas: leads are handed over while requests are still
answered, and no stop waits for what cannot come.

The story: the controller took a follower that leaves out of the ISRs, and stopped a moment later,
before it had sent the notice. The leader waited for the one that was gone, acks=all with it, for
as long as ``replica.lag.time.max.ms``. Leaders also took the one that leaves in again, since they
heard of the new ISR before they looked at the brokers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from tallymark.testing.simulation.plan import Fault, FaultKind, Plan
from tallymark.testing.simulation.run import Outcome, run_plan


@pytest.fixture(autouse=True)
def _all_lines() -> Iterator[None]:
    logger = logging.getLogger("tallymark")
    before = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(before)


def outcome(seed: int, *faults: Fault, seconds: float = 12) -> Outcome:
    plan = Plan(seed, 3, 2, 2, 1, False, 1 << 30, seconds, faults, 3)
    found = run_plan(plan)
    assert found.broken is None, found.told
    assert not [line for line in found.log if "CRITICAL" in line or "in time" in line]
    return found


def stop(at: float, broker: int, seconds: float = 2) -> Fault:
    return Fault(at, FaultKind.STOP, broker, seconds, 0)


def lines(of: Outcome, words: str) -> list[tuple[float, str]]:
    """(seconds, text) of the lines of the log with these words."""
    return [(float(line.split()[0]), line) for line in of.log if re.search(words, line)]


def stops(of: Outcome) -> Sequence[float]:
    """When faults stopped brokers."""
    return [event.at for event in of.history.of("fault")]


def test_producers_with_acks_all_hardly_notice_a_rolling_restart() -> None:
    found = outcome(5, stop(2, 1), stop(5, 2), stop(8, 3))
    last = stops(found)[-1] + 2
    handed = [line for at, line in lines(found, "leads handed over") if at <= last]
    assert len(handed) == 3
    assert all("kept=0" in line for line in handed), handed
    assert not [each for each in lines(found, "change done.*not registered") if each[0] <= last]
    acknowledged = [event.at for event in found.history.of("acknowledged")]
    gaps = [(after - before, before) for before, after in pairwise(acknowledged) if before <= last]
    assert max(gaps)[0] < 1, "simulated seconds"


def test_who_leaves_is_not_taken_into_an_isr_again() -> None:
    found = outcome(5, stop(2, 1, 4), seconds=8)
    (left, _), *_ = lines(found, "broker 1/1: INFO stopping")
    joined = [at for at, _ in lines(found, "isr change done.*broker 1 is in sync")]
    assert joined, "it comes back"
    assert min(at for at in joined if at > left) > left + 4


def test_of_two_that_stop_at_once_the_third_takes_all() -> None:
    found = outcome(6, stop(3, 1), stop(3.01, 3), seconds=8)
    began = stops(found)[0]
    handed = [line for at, line in lines(found, "leads handed over") if at < began + 2]
    assert handed
    assert all("kept=0" in line for line in handed), handed
    gone = [at for at, _ in lines(found, "change done.*(not registered)") if at < began + 2]
    assert not gone, "no election came after a broker had gone"


def test_all_at_once_do_not_wait_for_each_other() -> None:
    found = outcome(7, stop(3, 1), stop(3, 2), stop(3, 3), seconds=9)
    began = stops(found)[0]
    ended = [(at, line) for at, line in lines(found, "leads handed over") if at < began + 3]
    assert ended
    assert max(at for at, _ in ended) < began + 1


def test_a_stop_without_zookeeper_waits_for_nothing() -> None:
    away = Fault(2, FaultKind.NO_ZOOKEEPER, 1, 6, 0)
    found = outcome(8, away, stop(3.5, 1), seconds=10)
    (began,) = [event.at for event in found.history.of("fault") if "clean stop" in event.facts]
    (told,) = [at for at, _ in lines(found, "broker 1/1: .*leads are not handed over")]
    assert told < began + 4  # one request to ZooKeeper, where its loss was not noticed yet; not 15
