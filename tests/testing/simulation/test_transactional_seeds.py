"""Three whole brokers with transactions under the faults of a seed: our client's transactions, a
copier, requests that arrive late and behind their repetition, ids that others take. What was
committed is there, what was aborted is never seen, the copy is the source, and nothing hangs.

A seed that fails prints what happened, with fewer faults where it still fails with those.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager

import pytest
from checks import anomalies
from simulated import transactions_of

from tallymark.testing.simulation.history import Event, Fact
from tallymark.testing.simulation.invariants import BrokenInvariantError
from tallymark.testing.simulation.plan import transactional_plan_of
from tallymark.testing.simulation.run import Outcome
from tallymark.testing.simulation.shrink import shrink
from tallymark.testing.simulation.transactions.judging import Judge, once
from tallymark.testing.simulation.transactions.world import (
    run_transactional_plan,
    run_transactional_seed,
)


def check(seed: int) -> Outcome:
    outcome = run_transactional_seed(seed)
    if outcome.broken is not None:
        pytest.fail(shrink(outcome, run_transactional_plan).told)
    found = anomalies(transactions_of(outcome.history))
    assert found == [], outcome.told
    return outcome


@pytest.mark.parametrize("seed", [1, 3])
def test_what_was_committed_is_there_and_nothing_else(seed: int) -> None:
    counts = Counter(event.what for event in check(seed).history.events)
    assert counts["committed"] > 10
    assert counts["aborted"] > 0
    assert counts["read committed"] > 20


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 204))
def test_what_was_committed_is_there_and_nothing_else_for_many_seeds(seed: int) -> None:
    check(seed)


def test_plans_have_both_protocols_late_requests_and_hijacks() -> None:
    plans = [transactional_plan_of(seed) for seed in range(1, 60)]
    wanted = [plan.transactions for plan in plans if plan.transactions is not None]
    assert len(wanted) == len(plans)
    assert {each.implicit for each in wanted} == {True, False}
    assert any(each.late for each in wanted)
    assert any(each.hijacks for each in wanted)


Happened = tuple[str, tuple[Fact, ...]]
BEGUN: tuple[Happened, ...] = (
    ("begins", (7,)),
    ("writes", (7, "simulated", 0, "<7:1>", "<7:2>")),
    ("in log", (7, "<7:1>", "<7:2>")),
)
READ: Happened = ("read committed", (0, 5, 1, "<7:1>"))
ASKED: Happened = ("asks to commit", (7,))


def told(*happened: Happened) -> Judge:
    """A judge that was told of a transaction 7, and this."""
    judge = Judge()
    judge.look([Event(0.0, "p", what, facts) for what, facts in (*BEGUN, *happened)], ())
    return judge


def breaks(name: str) -> AbstractContextManager[object]:
    return pytest.raises(BrokenInvariantError, match=f"^{name}: ")


def test_what_is_read_before_its_commit_was_asked_for_is_found() -> None:
    told(ASKED, READ)
    with breaks("no_aborted_record_is_visible"):
        told(READ)


def test_what_was_read_and_is_aborted_is_found() -> None:
    with breaks("no_aborted_record_is_visible"):
        told(ASKED, READ, ("aborted", (7,)))


def test_what_is_committed_and_missing_is_found() -> None:
    judge = told(ASKED, ("committed", (7,)))
    judge.all_or_nothing({"<7:1>": (0, 5), "<7:2>": (0, 6)})
    with breaks("no_committed_record_is_missing_below_the_lso"):
        judge.all_or_nothing({"<7:1>": (0, 5)})


def test_half_of_a_transaction_in_doubt_is_found() -> None:
    judge = told(ASKED, ("in doubt", (7,)))
    judge.all_or_nothing({})
    judge.all_or_nothing({"<7:1>": (0, 5), "<7:2>": (0, 6)})
    with breaks("all_or_nothing"):
        judge.all_or_nothing({"<7:2>": (0, 6)})


@pytest.mark.parametrize("place", [(0, 6), (1, 5)])
def test_a_value_that_is_there_twice_is_found(place: tuple[int, int]) -> None:
    """Behind itself, and in another partition."""
    read = [(0, 5, "<7:1>"), (1, 6, "<7:2>"), (1, 7, "<9:3><7:1>")]
    assert once(read) == {"<7:1>": (0, 5), "<7:2>": (1, 6), "<9:3><7:1>": (1, 7)}
    with breaks("once"):
        once([*read, (*place, "<7:1>")])


def test_what_is_aborted_and_there_in_the_end_is_found() -> None:
    with breaks("no_aborted_record_is_visible"):
        told(("aborted", (7,))).all_or_nothing({"<7:1>": (0, 5)})


@pytest.mark.parametrize(
    ("name", "copy", "position"),
    [
        ("exactly_once_through_the_copy", ["<9:1><7:2>", "<9:2><7:1>"], 7),
        ("exactly_once_through_the_copy", ["<9:1><7:1>", "<9:2><7:1>"], 7),
        ("offsets_move_iff_committed", ["<9:1><7:1>"], 7),
        ("offsets_move_iff_committed", ["<9:1><7:1>", "<9:2><7:2>"], 6),
    ],
)
def test_a_copy_that_is_not_its_source_is_found(name: str, copy: list[str], position: int) -> None:
    source = [(5, "<7:1>"), (6, "<7:2>")]
    judge = told()
    judge.exactly_once_through_the_copy(source, ["<9:1><7:1>", "<9:2><7:2>"], 7)
    judge.exactly_once_through_the_copy(source, ["<9:1><7:1>"], 6)
    with breaks(name):
        judge.exactly_once_through_the_copy(source, copy, position)
