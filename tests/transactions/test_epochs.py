"""Epochs: raised once a record, used up, rotated, and recognised when a client asks again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_transaction import INSIDE, in_state

from tallymark.errors import CODES
from tallymark.transactions.adding import decide_add
from tallymark.transactions.ending import decide_abort, decide_completed, decide_end
from tallymark.transactions.initialising import decide_initialise
from tallymark.transactions.inputs import Add, Decision, End, Initialise
from tallymark.transactions.state import expired, overdue
from tallymark.transactions.transaction import LAST_EPOCH, State, Transaction

CONCURRENT = CODES["CONCURRENT_TRANSACTIONS"]


def initialised(
    transaction: Transaction, producer_id: int = -1, epoch: int = -1, new: int = 99
) -> Decision:
    request = Initialise("id", 60_000, producer_id, epoch)
    return decide_initialise(transaction, request, pending=False, new_producer_id=new, now_ms=200)


def ended(
    transaction: Transaction,
    client: tuple[int, int],
    commit: bool = True,
    version: int = 2,
    new: int = 99,
) -> Decision:
    request = End(*client, commit, version)
    return decide_end(transaction, request, pending=False, new_producer_id=new, now_ms=200)


def after(decision: Decision) -> Transaction:
    assert decision.after is not None
    return decision.after


def whole(transaction: Transaction) -> Transaction:
    return after(decide_completed(transaction, transaction.producer_epoch, 300))


@pytest.mark.parametrize("version", [0, 2])
def test_an_abort_for_a_new_producer_raises_the_epoch_once(version: int) -> None:
    """KAFKA-19367: it was raised for the fence, and again for the abort of TV2."""
    before = replace(in_state(State.ONGOING), version=version)
    fenced = after(initialised(before))
    assert fenced.producer_epoch == 6
    again = after(initialised(whole(fenced)))
    assert again.producer_epoch == 7


def test_a_fence_at_the_last_epoch_fits_and_the_next_producer_gets_a_new_id() -> None:
    """KAFKA-19367, KAFKA-20090: the epoch became negative."""
    before = replace(in_state(State.ONGOING), producer_epoch=LAST_EPOCH, version=2)
    aborted = whole(after(decide_abort(before, LAST_EPOCH, pending=False, now_ms=200)))
    assert aborted.producer_epoch == 2**15 - 1
    assert initialised(aborted, new=-1).needs_producer_id
    given = initialised(aborted)
    assert (given.producer_id, given.producer_epoch) == (99, 0)


def test_the_producer_whose_transaction_was_aborted_for_another_one_is_fenced() -> None:
    aborted = whole(after(initialised(in_state(State.ONGOING))))
    for commit in (True, False):
        assert ended(aborted, (7, 5), commit).error == CODES["PRODUCER_FENCED"]
    assert initialised(aborted, 7, 5).error == CODES["PRODUCER_FENCED"]


def test_a_producer_that_begins_anew_with_its_own_transaction_open_is_not_fenced() -> None:
    """The story: a client of the old protocol does not know whether its EndTxn was heard, and takes
    a new epoch before it goes on (KAFKA-17754). If it was not heard, this request aborts the open
    transaction, and is asked again with the same epoch."""
    first = initialised(in_state(State.ONGOING), 7, 5)
    assert first.error == CONCURRENT
    again = initialised(whole(after(first)), 7, 5)
    assert (again.error, again.producer_id, again.producer_epoch) == (0, 7, 6)
    late = after(again)
    assert initialised(late, 7, 5).producer_epoch == 6, "and once more"


def test_it_gets_a_new_id_where_that_used_up_the_epochs() -> None:
    before = replace(in_state(State.ONGOING), producer_epoch=LAST_EPOCH)
    aborted = whole(after(initialised(before, 7, LAST_EPOCH)))
    given = initialised(aborted, 7, LAST_EPOCH)
    assert (given.producer_id, given.producer_epoch) == (99, 0)
    again = initialised(after(given), 7, LAST_EPOCH, new=-1)
    assert (again.producer_id, again.producer_epoch) == (99, 0), "its retry is recognised"


def test_an_end_at_the_last_epoch_rotates_when_it_is_complete() -> None:
    before = replace(in_state(State.ONGOING), producer_epoch=LAST_EPOCH)
    assert ended(before, (7, LAST_EPOCH), new=-1).needs_producer_id
    decision = ended(before, (7, LAST_EPOCH))
    assert (decision.producer_id, decision.producer_epoch) == (99, 0), "what the client uses next"
    prepared = after(decision)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, 2**15 - 1), "for the markers"
    complete = whole(prepared)
    assert (complete.producer_id, complete.producer_epoch) == (99, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (7, -1)


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_waits_until_the_id_has_rotated(commit: bool) -> None:
    """KAFKA-18660: the client with its next id was told that it is not known, and gave up."""
    prepared = after(
        ended(replace(in_state(State.ONGOING), producer_epoch=LAST_EPOCH), (7, LAST_EPOCH))
    )
    add = Add(99, 0, INSIDE, 2)
    assert decide_add(prepared, add, pending=False, now_ms=200).error == CONCURRENT
    assert ended(prepared, (99, 0), commit).error == CONCURRENT
    assert decide_add(whole(prepared), add, pending=False, now_ms=200).error == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_retry_of_an_end_is_recognised_before_and_after_the_rotation(commit: bool) -> None:
    before = replace(in_state(State.ONGOING), producer_epoch=LAST_EPOCH)
    prepared = after(ended(before, (7, LAST_EPOCH), commit))
    assert ended(prepared, (7, LAST_EPOCH), commit).error == CONCURRENT
    complete = whole(prepared)
    again = ended(complete, (7, LAST_EPOCH), commit)
    assert (again.error, again.after) == (0, None)
    assert (again.producer_id, again.producer_epoch) == (99, 0)
    assert ended(complete, (7, LAST_EPOCH), not commit).error == CODES["INVALID_TXN_STATE"]
    # In the next transaction it is a zombie.
    next_one = after(decide_add(complete, Add(99, 0, INSIDE, 2), pending=False, now_ms=200))
    assert ended(next_one, (7, LAST_EPOCH), commit).error == CODES["INVALID_PRODUCER_ID_MAPPING"]


def test_the_old_protocol_does_not_raise_the_epoch() -> None:
    decision = ended(in_state(State.ONGOING), (7, 5), version=0)
    assert after(decision).producer_epoch == 5
    assert whole(after(decision)).producer_epoch == 5


def test_an_abort_of_nothing_has_no_partitions_and_a_start() -> None:
    prepared = after(ended(in_state(State.EMPTY), (7, 5), commit=False))
    assert (prepared.partitions, prepared.producer_epoch) == (frozenset(), 6)
    assert prepared.started_ms == 200


def test_a_completion_of_another_end_changes_nothing() -> None:
    prepared = after(ended(in_state(State.ONGOING), (7, 5)))
    assert decide_completed(prepared, 5, 300) == Decision()
    complete = whole(prepared)
    assert decide_completed(complete, complete.producer_epoch, 400) == Decision()


def test_a_clock_that_goes_back_does_not_make_the_end_older_than_the_decision() -> None:
    prepared = after(ended(in_state(State.ONGOING), (7, 5)))
    assert after(decide_completed(prepared, 6, 50)).updated_ms == 200


def test_what_is_open_for_longer_than_its_timeout_is_overdue() -> None:
    transactions = [in_state(state) for state in State if state is not State.DEAD]
    assert [each.state for each in overdue(transactions, 100 + 60_000)] == [State.ONGOING]
    assert not list(overdue(transactions, 100 + 59_999))


def test_an_abort_of_what_ended_meanwhile_changes_nothing() -> None:
    prepared = after(ended(in_state(State.ONGOING), (7, 5)))
    assert decide_abort(prepared, 5, pending=False, now_ms=300) == Decision()
    other = replace(in_state(State.ONGOING), producer_epoch=6)
    assert decide_abort(other, 5, pending=False, now_ms=300) == Decision()
    pending = decide_abort(in_state(State.ONGOING), 5, pending=True, now_ms=300)
    assert pending == Decision(CONCURRENT)


def test_ids_are_forgotten_when_nothing_is_open() -> None:
    transactions = [in_state(state) for state in State if state is not State.DEAD]
    forgotten = [each.state for each in expired(transactions, 1100, 1000)]
    assert forgotten == [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]
    assert not list(expired(transactions, 1099, 1000))
