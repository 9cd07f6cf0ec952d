"""The guard of a partition: which batch asks the coordinator, which waits, what a marker does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CODES
from tallymark.transactions.verifying import (
    ABORTABLE,
    REMEMBERED_MS,
    Guard,
    Turn,
    Verifications,
    code_for_client,
)

GAP = CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]


def check(at: Verifications[int], sequence: int = 0, epoch: int = 0, *, known: bool = False) -> int:
    return at.check(7, epoch, sequence, is_known=known)


def test_the_first_batch_asks_and_the_next_ones_wait_in_their_order() -> None:
    at = Verifications[int]()
    turn, guard = at.arrives(7, 0, 0, 10, 0)
    assert turn is Turn.ASK
    assert at.arrives(7, 0, 3, 11, 0)[0] is Turn.WAIT
    assert at.arrives(9, 0, 0, 20, 0)[0] is Turn.ASK, "another producer does not wait for this one"
    assert check(at) == ABORTABLE
    assert at.answered(guard, 0) == (0, [10, 11])
    assert (check(at), at.arrives(7, 0, 5, 12, 0)[0]) == (0, Turn.APPEND)


def test_a_refused_batch_asks_again_when_it_is_repeated() -> None:
    at = Verifications[int]()
    _, guard = at.arrives(7, 0, 0, 10, 0)
    assert at.answered(guard, 51) == (51, [10])
    assert check(at) == ABORTABLE
    assert at.arrives(7, 0, 0, 10, 0) == (Turn.ASK, guard)


def test_a_marker_takes_the_answer_away_that_was_asked_for_before_it() -> None:
    """The transaction that the coordinator has said yes to may be over: the batch would begin one
    that hangs. Or it was the one before that is over (transaction.version 2): a producer that
    began the next one at once was told now and then to abort it. So it is to ask again."""
    at = Verifications[int]()
    _, guard = at.arrives(7, 0, 0, 10, 0)
    at.marker(7)
    assert at.answered(guard, 0) == (CODES["CONCURRENT_TRANSACTIONS"], [10])
    assert check(at) == ABORTABLE, "the yes is worth nothing"
    _, guard = at.arrives(7, 0, 0, 11, 0)
    at.answered(guard, 0)
    at.marker(7)
    assert check(at) == ABORTABLE, "it was prepared in a thread meanwhile"


def test_the_lowest_sequence_goes_first_into_a_log_that_does_not_know_the_producer() -> None:
    """The first batch was refused for a moment, the second one asked again and was written; the
    first came back as a duplicate of nothing."""
    at = Verifications[int]()
    _, guard = at.arrives(7, 0, 0, 10, 0)
    at.arrives(7, 0, 3, 11, 0)
    at.answered(guard, 51)
    _, guard = at.arrives(7, 0, 3, 11, 0)
    at.answered(guard, 0)
    assert check(at, 3) == GAP
    assert check(at, 0) == 0
    assert check(at, 3, known=True) == 0


def test_a_newer_epoch_has_a_guard_of_its_own() -> None:
    at = Verifications[int]()
    _, old = at.arrives(7, 0, 5, 10, 0)
    turn, new = at.arrives(7, 1, 0, 11, 0)
    assert turn is Turn.ASK
    assert at.arrives(7, 0, 5, 12, 0)[0] is Turn.REFUSE
    assert at.answered(old, 0) == (ABORTABLE, [10])
    at.answered(new, 0)
    assert (check(at, epoch=1), check(at, epoch=0)) == (0, ABORTABLE)


def test_guards_of_those_that_never_came_back_are_forgotten() -> None:
    at = Verifications[int]()
    for producer in range(5):
        at.answered(at.arrives(producer, 0, 0, 1, 0)[1], 51)
    at.arrives(9, 0, 0, 1, REMEMBERED_MS)
    assert len(at) == 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["batch", "yes", "no", "marker"]), st.sampled_from([7, 9])),
        max_size=30,
    )
)
def test_every_batch_is_answered_once_and_in_the_order_of_its_producer(
    events: list[tuple[str, int]],
) -> None:
    at, done = Verifications[tuple[int, int]](), list[tuple[int, int]]()
    asked: dict[int, list[Guard[tuple[int, int]]]] = {}
    sent = {7: 0, 9: 0}
    for what, producer in events:
        if what == "batch":
            batch = producer, sent[producer]
            turn, guard = at.arrives(producer, 0, sent[producer], batch, 0)
            sent[producer] += 1
            if turn is Turn.ASK:
                asked.setdefault(producer, []).append(guard)
            elif turn is Turn.APPEND:
                assert not asked.get(producer)
                done.append(batch)
        elif what == "marker":
            at.marker(producer)
        elif asked.get(producer):
            done += at.answered(asked[producer].pop(0), 0 if what == "yes" else 51)[1]
    for guards in asked.values():
        for guard in guards:
            done += at.answered(guard, 0)[1]
    for producer, count in sent.items():
        mine = [number for who, number in done if who == producer]
        assert sorted(mine) == list(range(count))
        assert mine == sorted(mine) or "marker" in {what for what, _ in events}


@pytest.mark.parametrize(
    ("code", "old", "v11", "v12"),
    [
        ("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", None),
        ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", None),
        ("NOT_COORDINATOR", *["NOT_ENOUGH_REPLICAS"] * 3),
        ("COORDINATOR_LOAD_IN_PROGRESS", *["NOT_ENOUGH_REPLICAS"] * 3),
        ("PRODUCER_FENCED", *["INVALID_PRODUCER_EPOCH"] * 3),
        ("INVALID_PRODUCER_ID_MAPPING", *["INVALID_PRODUCER_ID_MAPPING"] * 3),
    ],
)
def test_codes_by_version(code: str, old: str, v11: str, v12: str | None) -> None:
    said = CODES[code]
    assert code_for_client(said, knows_abortable=False, adds=False) == CODES[old]
    assert code_for_client(said, knows_abortable=True, adds=False) == CODES[v11]
    assert code_for_client(said, knows_abortable=True, adds=True) == CODES[v12 or code]
