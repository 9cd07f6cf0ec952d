"""Every call of a transactional producer in every phase, and what errors make of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tallymark.client.producing.batches.batch import NO_IDENTITY
from tallymark.client.producing.transactions.error_kinds import (
    ErrorKind,
    kind_of_answer,
    kind_of_lost_batch,
)
from tallymark.client.producing.transactions.machine import Phase, TransactionMachine
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    ConnectError,
    KafkaError,
    LocalProtocolError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)

PLACE: Final = ("t", 0)
Call = Callable[[TransactionMachine], object]

CALLS: Final[dict[str, Call]] = {
    "initialise": TransactionMachine.initialise,
    "begin": TransactionMachine.begin,
    "send": TransactionMachine.check_send,
    "commit": TransactionMachine.commit,
    "abort": TransactionMachine.abort,
}
ABORT, FATAL, WRONG = TransactionAbortableError, TransactionFatalError, LocalProtocolError
# What each call makes of each phase: the next phase, or the error.
TABLE: Final[dict[Phase, tuple[Phase | type[Exception], ...]]] = {
    Phase.UNINITIALISED: (Phase.INITIALISING, WRONG, WRONG, WRONG, WRONG),
    Phase.INITIALISING: (Phase.INITIALISING, WRONG, WRONG, WRONG, WRONG),
    Phase.READY: (WRONG, Phase.IN_TRANSACTION, WRONG, WRONG, WRONG),
    Phase.IN_TRANSACTION: (WRONG, WRONG, Phase.IN_TRANSACTION, Phase.COMMITTING, Phase.ABORTING),
    Phase.COMMITTING: (WRONG, WRONG, WRONG, Phase.COMMITTING, WRONG),
    Phase.ABORTING: (WRONG, WRONG, WRONG, WRONG, Phase.ABORTING),
    Phase.ABORTABLE: (ABORT, ABORT, ABORT, ABORT, Phase.ABORTING),
    Phase.FATAL: (FATAL, FATAL, FATAL, FATAL, FATAL),
}


def error(name: str) -> KafkaError:
    return KafkaError(CODES[name])


def ready(implicit: bool) -> TransactionMachine:
    machine = TransactionMachine("id")
    machine.initialise()
    machine.initialised((7, 0), implicit)
    return machine


def begun(implicit: bool) -> TransactionMachine:
    """A transaction with one partition in it."""
    machine = ready(implicit)
    machine.begin()
    if not machine.may_send(PLACE):
        machine.partitions_added({PLACE})
    return machine


def in_phase(phase: Phase) -> TransactionMachine:
    machine = TransactionMachine("id")
    if phase is Phase.UNINITIALISED:
        return machine
    if phase is Phase.INITIALISING:
        machine.initialise()
        return machine
    machine = ready(True)
    if phase is Phase.READY:
        return machine
    machine.begin()
    if phase is Phase.COMMITTING:
        machine.commit()
    elif phase is Phase.ABORTING:
        machine.abort()
    elif phase is Phase.ABORTABLE:
        machine.batch_lost(TimedOutError("late"))
    elif phase is Phase.FATAL:
        machine.batch_lost(error("PRODUCER_FENCED"))
    return machine


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("call", CALLS)
def test_every_call_in_every_phase(phase: Phase, call: str) -> None:
    machine = in_phase(phase)
    assert machine.phase is phase
    expected = TABLE[phase][list(CALLS).index(call)]
    if isinstance(expected, Phase):
        CALLS[call](machine)
        assert machine.phase is expected
    else:
        with pytest.raises(expected):
            CALLS[call](machine)
        assert machine.phase is phase


def test_a_partition_waits_until_it_is_added() -> None:
    machine = ready(implicit=False)
    assert not machine.may_send(PLACE)
    assert not machine.wanted, "outside a transaction nothing is added"
    machine.begin()
    assert not machine.may_send(PLACE)
    assert machine.wanted == {PLACE}
    machine.partitions_added({PLACE})
    assert machine.may_send(PLACE)
    assert not machine.wanted


def test_with_the_newer_protocol_nothing_is_added_and_the_epoch_follows_the_end() -> None:
    machine = ready(implicit=True)
    machine.begin()
    assert machine.may_send(PLACE)
    machine.commit()
    assert machine.end_wanted()
    machine.ended((7, 1))
    assert machine.identity == (7, 1)
    assert machine.phase is Phase.READY


@pytest.mark.parametrize("commits", [True, False])
def test_an_empty_transaction_ends_without_a_question(commits: bool) -> None:
    machine = ready(implicit=True)
    machine.begin()
    machine.commit() if commits else machine.abort()
    assert not machine.end_wanted()
    assert machine.phase is Phase.READY


UNCLEAR: Final[list[TallymarkError]] = [
    error("UNKNOWN_SERVER_ERROR"),
    error("REQUEST_TIMED_OUT"),
    error("NETWORK_EXCEPTION"),
    ConnectError("127.0.0.1:1", "request", "reset"),
]


@pytest.mark.parametrize("unclear", UNCLEAR, ids=str)
@pytest.mark.parametrize("commits", [True, False])
def test_after_an_unclear_end_the_older_protocol_needs_a_new_epoch(
    unclear: TallymarkError, commits: bool
) -> None:
    """KAFKA-17754: a delayed EndTxn of one transaction ended the next one."""
    machine = begun(implicit=False)
    machine.commit() if commits else machine.abort()
    assert machine.end_wanted()
    assert machine.end_failed(unclear), "the same question is asked again"
    machine.ended(NO_IDENTITY)
    with pytest.raises(LocalProtocolError, match="new epoch"):
        machine.begin()
    machine.renewed((7, 1))
    machine.begin()


@pytest.mark.parametrize("unclear", UNCLEAR, ids=str)
def test_after_an_unclear_addition_the_older_protocol_needs_a_new_epoch(
    unclear: TallymarkError,
) -> None:
    machine = ready(implicit=False)
    machine.begin()
    assert not machine.may_send(PLACE)
    assert machine.add_failed(unclear)
    machine.abort()
    assert machine.end_wanted(), "it may have been added"
    assert not machine.end_failed(error("INVALID_TXN_STATE")), "it was not"
    assert machine.phase is Phase.READY
    assert machine.must_renew


@pytest.mark.parametrize("unclear", UNCLEAR, ids=str)
def test_after_unclear_offsets_the_older_protocol_needs_a_new_epoch(
    unclear: TallymarkError,
) -> None:
    """A delayed TxnOffsetCommit of an aborted transaction was committed with the next one: in the
    older protocol both have one epoch (seed 22746 of the simulation)."""
    machine = ready(implicit=False)
    machine.begin()
    machine.offsets_added()
    machine.offsets_asked()
    assert machine.offsets_failed(unclear), "the same offsets are sent again"
    machine.abort()
    assert machine.end_wanted()
    machine.ended(NO_IDENTITY)
    assert machine.must_renew


def test_after_unclear_offsets_each_end_has_a_new_epoch_anyway_in_the_protocol_of_kafka_4() -> None:
    machine = begun(implicit=True)
    machine.offsets_asked()
    assert machine.offsets_failed(TimedOutError("no answer"))
    machine.abort()
    assert machine.end_wanted()
    machine.ended((7, 1))
    assert not machine.must_renew


def test_a_lost_batch_makes_a_commit_impossible() -> None:
    machine = begun(implicit=True)
    machine.commit()
    machine.batch_lost(TimedOutError("not delivered"))
    with pytest.raises(TransactionAbortableError, match="not delivered"):
        machine.end_wanted()
    machine.abort()
    assert machine.end_wanted()
    machine.ended((7, 1))
    assert not machine.must_renew
    machine.begin()


def test_fenced_after_an_unclear_commit_is_in_doubt() -> None:
    """The first question may have been done before the id was taken over."""
    machine = begun(implicit=True)
    machine.commit()
    assert machine.end_wanted()
    assert machine.end_failed(error("REQUEST_TIMED_OUT"))
    with pytest.raises(CommitInDoubt):
        machine.end_failed(error("PRODUCER_FENCED"))
    with pytest.raises(TransactionFatalError):
        machine.commit()


def test_an_abort_is_no_way_out_of_a_doubt() -> None:
    machine = begun(implicit=True)
    machine.commit()
    machine.end_failed(error("REQUEST_TIMED_OUT"))
    machine.not_delivered()
    with pytest.raises(LocalProtocolError, match="commit_transaction"):
        machine.abort()


def test_what_was_not_asked_for_is_still_open() -> None:
    machine = begun(implicit=True)
    machine.commit()
    machine.not_delivered()
    machine.abort()


@pytest.mark.parametrize(
    ("name", "by_coordinator", "kind"),
    [
        ("COORDINATOR_LOAD_IN_PROGRESS", True, ErrorKind.RETRY),
        ("CONCURRENT_TRANSACTIONS", True, ErrorKind.RETRY),
        ("NOT_COORDINATOR", False, ErrorKind.RETRY),
        ("TRANSACTION_ABORTABLE", True, ErrorKind.ABORT),
        ("TOPIC_AUTHORIZATION_FAILED", True, ErrorKind.ABORT),
        ("ILLEGAL_GENERATION", False, ErrorKind.ABORT),
        ("INVALID_PRODUCER_EPOCH", False, ErrorKind.ABORT),
        ("INVALID_PRODUCER_EPOCH", True, ErrorKind.FATAL),
        ("PRODUCER_FENCED", False, ErrorKind.FATAL),
        ("INVALID_PRODUCER_ID_MAPPING", True, ErrorKind.FATAL),
    ],
)
def test_errors_are_of_three_kinds(name: str, by_coordinator: bool, kind: ErrorKind) -> None:
    assert kind_of_answer(CODES[name], by_coordinator) is kind


def test_a_lost_batch_is_never_tried_again() -> None:
    for code in CODES.values():
        assert kind_of_lost_batch(KafkaError(code)) is not ErrorKind.RETRY


CODE = st.sampled_from(sorted(CODES.values()))


class AnyOrder(RuleBasedStateMachine):
    """Calls, answers and errors in any order, under the older protocol. ``unclear``: a question
    was not answered since the last new epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = ready(implicit=False)
        self.unclear = False

    def attempt(self, work: Call) -> object:
        try:
            return work(self.machine)
        except (LocalProtocolError, TransactionError):
            return None

    @rule(call=st.sampled_from(sorted(CALLS)))
    def call(self, call: str) -> None:
        before = self.machine.phase
        self.attempt(CALLS[call])
        if call == "begin" and before is Phase.READY and self.machine.phase is not before:
            assert not self.unclear, "a new epoch comes first"

    @rule(code=CODE)
    def a_batch_is_lost(self, code: int) -> None:
        self.machine.batch_lost(KafkaError(code))

    @precondition(lambda self: self.machine.phase in (Phase.IN_TRANSACTION, Phase.COMMITTING))
    @rule(code=CODE)
    def partitions_are_added(self, code: int) -> None:
        if self.machine.may_send(PLACE):
            return
        if not code:
            self.machine.partitions_added({PLACE})
            return
        self.machine.add_failed(KafkaError(code))
        self.unclear |= KafkaError(code).name in (
            "UNKNOWN_SERVER_ERROR",
            "REQUEST_TIMED_OUT",
            "NETWORK_EXCEPTION",
        )

    @precondition(lambda self: self.machine.phase in (Phase.COMMITTING, Phase.ABORTING))
    @rule(codes=st.lists(CODE, max_size=4))
    def end(self, codes: list[int]) -> None:
        commits = self.machine.commits
        if not self.attempt(TransactionMachine.end_wanted):
            return
        for code in codes:
            if not code:
                break
            again = self.attempt(partial(TransactionMachine.end_failed, error=KafkaError(code)))
            if not again:
                return
            assert self.machine.commits is commits, "what is asked for does not change"
            self.unclear |= code in (-1, 7, 13)
        self.machine.ended(NO_IDENTITY)

    @precondition(lambda self: self.machine.phase is Phase.READY and self.machine.must_renew)
    @rule()
    def renew(self) -> None:
        number, epoch = self.machine.identity
        self.machine.renewed((number, epoch + 1))
        self.unclear = False

    @invariant()
    def nothing_is_sent_outside_a_transaction(self) -> None:
        if self.machine.phase not in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            assert not self.machine.may_send(PLACE)

    @invariant()
    def nothing_is_added_where_only_an_abort_is_left(self) -> None:
        """abort() cancelled AddPartitionsToTxn, and the next batch of a report had the same
        partition added again, beside EndTxn: after it, that begins another transaction."""
        if self.machine.phase not in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            assert not self.machine.wanted

    @invariant()
    def an_unclear_answer_is_not_forgotten(self) -> None:
        assert self.machine.must_renew or not self.unclear


TestAnyOrder = AnyOrder.TestCase
