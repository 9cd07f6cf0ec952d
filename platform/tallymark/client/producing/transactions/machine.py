"""The states of a transactional producer. Pure: no I/O, no clock; one owner, its I/O thread.

::

    UNINITIALISED -> INITIALISING -> READY <-> IN_TRANSACTION -> COMMITTING -> READY
                                       ^             |
                                       |             v
                                       +-- ABORTING <-- ABORTABLE        (any) -> FATAL

Two protocols. With ``transaction.version`` 2 (KIP-890) a Produce adds its partitions by itself and
EndTxn answers the epoch of the next transaction. Before it, partitions are added by
AddPartitionsToTxn before their first batch, and the epoch stays; a delayed EndTxn,
AddPartitionsToTxn or TxnOffsetCommit may then hit the *next* transaction (KAFKA-17754). So after
any unclear answer, and after any batch that was lost, the machine does not begin before
InitProducerId gave a new epoch (:attr:`TransactionMachine.must_renew`).

A decision once asked for is not changed: while the answer to a commit is not known, the only call
is another commit.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.client.producing.transactions.error_kinds import (
    ErrorKind,
    is_unclear,
    kind_of_answer,
    kind_of_lost_batch,
)
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    KafkaError,
    LocalProtocolError,
    TallymarkError,
    TransactionAbortableError,
    TransactionFatalError,
)

Place = tuple[str, int]
"""Topic and partition."""

_NOTHING_OPEN: Final = CODES["INVALID_TXN_STATE"]


class Phase(Enum):
    """See the module."""

    UNINITIALISED = "not initialised"
    INITIALISING = "initialising"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE = "to be aborted"
    FATAL = "unusable"


class TransactionMachine:
    """See the module. Calls that do not fit the phase raise LocalProtocolError and change nothing;
    TransactionAbortableError where only an abort helps; TransactionFatalError where nothing does.
    """

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.phase = Phase.UNINITIALISED
        self.identity: Identity = NO_IDENTITY
        self.implicit = False
        """Whether the cluster has ``transaction.version`` 2."""
        self.must_renew = False
        """Whether a new epoch is needed before the next transaction."""
        self.added: set[Place] = set()
        """Partitions whose batches may be sent in this transaction."""
        self.wanted: set[Place] = set()
        """Partitions that have batches and wait to be added; none where only an abort is left. A
        request for them that comes after EndTxn would begin another transaction."""
        self._begun = False
        """Whether the coordinator may know of the transaction."""
        self._surely_begun = False
        self._doubted = False
        """Whether an EndTxn was not answered."""
        self.in_doubt = False
        """Whether it became unusable while it was not known whether a commit was done."""
        self._error: TallymarkError | None = None

    # -- the calls of the application ---------------------------------------------------------

    def initialise(self) -> None:
        """Get an id, for the first time."""
        self._need("init_transactions()", Phase.UNINITIALISED, Phase.INITIALISING)
        self.phase = Phase.INITIALISING

    def begin(self) -> None:
        """Begin a transaction; where :attr:`must_renew` says so, :meth:`renewed` comes first."""
        self.check_begin()
        if self.must_renew:
            raise LocalProtocolError("a transaction cannot begin before its new epoch is there")
        self._forget()
        self.phase = Phase.IN_TRANSACTION

    def check_begin(self) -> None:
        """Whether a transaction may begin, apart from the epoch."""
        self._need("begin_transaction()", Phase.READY)

    def check_send(self, call: str = "send()") -> None:
        """Whether records and offsets may be sent now."""
        self._need(call, Phase.IN_TRANSACTION)

    def commit(self) -> None:
        """No more records; :meth:`end_wanted` follows when all are delivered. Again while the
        answer is not known."""
        self._need("commit_transaction()", Phase.IN_TRANSACTION, Phase.COMMITTING)
        self.phase = Phase.COMMITTING

    def abort(self) -> None:
        """No more records, and no more partitions. Again while the answer is not known."""
        self._need("abort_transaction()", Phase.IN_TRANSACTION, Phase.ABORTABLE, Phase.ABORTING)
        self.phase = Phase.ABORTING
        self.wanted.clear()

    def not_delivered(self) -> None:
        """The time for a commit ran out before the end was asked for: the transaction is open."""
        if self.phase is Phase.COMMITTING and not self._doubted:
            self.phase = Phase.IN_TRANSACTION

    # -- the end ------------------------------------------------------------------------------

    def end_wanted(self) -> bool:
        """Whether the coordinator has to be told the end; else it is over now, since the
        coordinator has heard nothing. Raises TransactionAbortableError or TransactionFatalError
        where a batch was lost before a commit was asked for."""
        self._need("commit_transaction()", Phase.COMMITTING, Phase.ABORTING)
        if self._begun:
            return True
        self._over()
        return False

    @property
    def commits(self) -> bool:
        """Which end is asked for."""
        return self.phase is Phase.COMMITTING

    def ended(self, identity: Identity) -> None:
        """The coordinator has decided as asked; ``identity`` of the next transaction, or
        NO_IDENTITY where it stays."""
        if identity != NO_IDENTITY:
            self.identity = identity
            self.must_renew = False
        self._over()

    def end_failed(self, error: TallymarkError) -> bool:
        """EndTxn was not answered, or with an error. Whether to ask again: else it is over, or
        the reason is raised."""
        if self._unclear(error):
            self._doubted = True
            return True
        assert isinstance(error, KafkaError)
        if error.code == _NOTHING_OPEN and not self.commits and not self._surely_begun:
            self.must_renew = True  # what may have begun the transaction may arrive yet
            self._over()
            return False
        kind = kind_of_answer(error.code, by_coordinator=True)
        if kind is ErrorKind.RETRY:
            return True
        if kind is ErrorKind.ABORT and self.commits and not self._doubted:
            self._abortable(error)
            self._raise_abortable("commit_transaction()")
        self._fatal(error)
        return False

    # -- identities ---------------------------------------------------------------------------

    def initialised(self, identity: Identity, implicit: bool) -> None:
        """InitProducerId was answered at :meth:`initialise`."""
        self.identity, self.implicit = identity, implicit
        self.phase = Phase.READY

    def renewed(self, identity: Identity) -> None:
        """InitProducerId gave the next epoch, or another id."""
        self.identity = identity
        self.must_renew = False

    def id_failed_again(self, error: TallymarkError) -> bool:
        """InitProducerId was not answered, or with an error: True to ask again, or it raises."""
        if is_unclear(error):
            return True
        assert isinstance(error, KafkaError)
        if kind_of_answer(error.code, by_coordinator=True) is not ErrorKind.RETRY:
            self._fatal(error)
        return True

    # -- what is in the transaction -----------------------------------------------------------

    def may_send(self, place: Place) -> bool:
        """Whether a batch of this partition may leave now. Where not, it is :attr:`wanted`."""
        if self.phase not in (Phase.IN_TRANSACTION, Phase.COMMITTING):
            return False
        if place in self.added:
            return True
        if not self.implicit:
            self.wanted.add(place)
            return False
        self.added.add(place)
        self._begun = True
        return True

    def partitions_added(self, places: set[Place]) -> None:
        """AddPartitionsToTxn was answered: these are in it."""
        self.added |= places
        self.wanted -= places
        self._begun = self._surely_begun = True

    def add_failed(self, error: TallymarkError) -> bool:
        """AddPartitionsToTxn or AddOffsetsToTxn was not answered, or with an error. Whether to ask
        again."""
        if self._unclear(error):
            return True
        assert isinstance(error, KafkaError)
        return self._failed(error, kind_of_answer(error.code, by_coordinator=True))

    def offsets_asked(self) -> None:
        """TxnOffsetCommit is about to leave: with ``transaction.version`` 2 it begins the
        transaction."""
        self._begun = True

    def offsets_added(self) -> None:
        """AddOffsetsToTxn was answered."""
        self._begun = self._surely_begun = True

    def offsets_failed(self, error: TallymarkError) -> bool:
        """TxnOffsetCommit was not answered, or with an error. Whether to ask again: the same
        offsets a second time are the same."""
        if self._unclear(error):
            return True
        assert isinstance(error, KafkaError)
        return self._failed(error, kind_of_answer(error.code, by_coordinator=False))

    def batch_lost(self, error: TallymarkError) -> None:
        """A batch was given up: what it was part of cannot be committed."""
        self.must_renew = True
        if self.phase in (Phase.IN_TRANSACTION, Phase.COMMITTING, Phase.ABORTABLE):
            self._failed(error, kind_of_lost_batch(error))

    # -- details ------------------------------------------------------------------------------

    def _need(self, call: str, *phases: Phase) -> None:
        if self.phase is Phase.FATAL:
            raise TransactionFatalError(self.transactional_id, f"unusable since: {self._error}")
        if self.phase in phases:
            return
        self._raise_abortable(call)
        raise LocalProtocolError(
            f"{call} does not fit: the producer {self.transactional_id} is {self.phase.value}"
            f"{_ADVICE.get(self.phase, '')}"
        )

    def _raise_abortable(self, call: str) -> None:
        if self.phase is Phase.ABORTABLE:
            raise TransactionAbortableError(
                self.transactional_id,
                f"{call}: the transaction has to be aborted, since: {self._error}",
            )

    def _unclear(self, error: TallymarkError) -> bool:
        if not is_unclear(error):
            return False
        self._begun = True
        self.must_renew = self.must_renew or not self.implicit
        return True

    def _failed(self, error: TallymarkError, kind: ErrorKind) -> bool:
        if kind is ErrorKind.FATAL:
            self._unusable(error)
        elif kind is ErrorKind.ABORT:
            self._abortable(error)
        return kind is ErrorKind.RETRY

    def _abortable(self, error: TallymarkError) -> None:
        if self.phase is not Phase.ABORTABLE:
            self.phase, self._error = Phase.ABORTABLE, error
            self.wanted.clear()

    def _fatal(self, error: TallymarkError) -> None:
        self._unusable(error)
        if self.in_doubt:
            raise CommitInDoubt(
                self.transactional_id,
                f"an earlier question was not answered, and now nothing can be asked: {error}",
            )
        raise TransactionFatalError(self.transactional_id, str(error))

    def _unusable(self, error: TallymarkError) -> None:
        self.in_doubt = self._doubted and self.commits
        self.phase, self._error = Phase.FATAL, error
        self.wanted.clear()

    def _over(self) -> None:
        self._forget()
        self.phase = Phase.READY

    def _forget(self) -> None:
        self.added, self.wanted = set(), set()
        self._begun = self._surely_begun = self._doubted = False
        self._error = None


_ADVICE: Final = {
    Phase.UNINITIALISED: "; call init_transactions() first",
    Phase.INITIALISING: "; call init_transactions() again",
    Phase.READY: "; call begin_transaction() first",
    Phase.COMMITTING: "; whether it is committed is not known yet: call commit_transaction() again",
    Phase.ABORTING: "; call abort_transaction() again",
}
