"""One transactional id: its producer, and its transaction if one is open.

States, with their numbers in the log::

                    first partition             EndTxn, a timeout, a new producer
      0 EMPTY ───────────────────────▶ 1 ONGOING ─────────────────┐
        ▲  │                             ▲                        ▼
        │  │ TV2: abort of nothing       │ first         2 PREPARE_COMMIT, 3 PREPARE_ABORT
        │  └─────────────────────────────┼──────────────▶  │ the outcome is decided; markers go out
        │                                │ partition       ▼
        └──────────────────────── 4 COMPLETE_COMMIT, 5 COMPLETE_ABORT
             InitProducerId

Epochs. A client that holds (producer id, epoch) may write. *A record raises the epoch, and nothing
else, once*: KAFKA-19367 raised it for the fence and again for the abort. With the protocol of Kafka
4 ("TV2", KIP-890) each end of a transaction raises it, so a late batch of one transaction cannot be
taken for one of the next; before, only InitProducerId and an abort by the coordinator did.

The last epoch that a client is given is :data:`LAST_EPOCH`. After it the id *rotates*: the next
producer id begins at epoch 0. A transaction that ends in TV2 at LAST_EPOCH writes its markers with
LAST_EPOCH + 1 and carries ``next_producer_id`` until it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition

LAST_EPOCH: Final = 2**15 - 2
"""The highest epoch that a client may have."""
NONE: Final = -1
"""No producer id, epoch or time."""
TV2: Final = 2
"""The level of ``transaction.version`` with which each end raises the epoch (KIP-890)."""


class State(IntEnum):
    """The states, by their numbers in ``__transaction_state``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Its tombstone is being written, in Kafka. Ours is removed by the tombstone itself."""


PREPARED: Final = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
COMPLETE: Final = frozenset((State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
IDLE: Final = COMPLETE | {State.EMPTY}
"""Nothing is open, and no marker is to be written."""
NAMES: Final = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
}
"""Kafka's names, as DescribeTransactions and ListTransactions answer them."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as it is stored. Times are ms UTC."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    """What the open transaction has written to, or may have."""
    updated_ms: int
    started_ms: int = NONE
    """When the first partition was added, or -1."""
    previous_producer_id: int = NONE
    """Before the last rotation: the client's retry comes with it."""
    next_producer_id: int = NONE
    """Where the id rotates when this transaction is complete, or -1."""
    last_epoch: int = NONE
    """The epoch before, where the client that has it may ask again; -1 where it is fenced."""
    version: int = 0
    """The level of ``transaction.version`` of the client that wrote last."""
    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    """Tagged fields of a newer version: kept and written again."""

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left for a client: the next one needs a new producer id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def commits(self) -> bool:
        """Whether the outcome that is decided is a commit."""
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def is_overdue_at(self) -> int | None:
        """When the coordinator aborts it, ms UTC; None where nothing is open."""
        return self.started_ms + self.timeout_ms if self.state is State.ONGOING else None


def begun(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, with epoch 0."""
    return Transaction(
        transactional_id, producer_id, 0, timeout_ms, State.EMPTY, frozenset(), now_ms
    )


def prepared(
    transaction: Transaction, commit: bool, version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The outcome is decided by its client. In TV2 the epoch is raised; ``next_producer_id`` is set
    where that exhausts it."""
    raised = version >= TV2
    return replace(
        transaction,
        producer_epoch=transaction.producer_epoch + raised,
        last_epoch=transaction.producer_epoch if raised else transaction.last_epoch,
        state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        next_producer_id=next_producer_id,
        started_ms=now_ms if transaction.started_ms == NONE else transaction.started_ms,
        updated_ms=now_ms,
        version=version,
    )


def fenced(transaction: Transaction, now_ms: int, *, by_itself: bool = False) -> Transaction:
    """The coordinator aborts it: after its timeout, or for a producer that begins.

    The client that has it is fenced, unless it is the one that begins anew (``by_itself``): then it
    asks again with its epoch, which is ``last_epoch``. No producer id is needed where this uses up
    the epochs: InitProducerId follows, which rotates.
    """
    return replace(
        transaction,
        producer_epoch=transaction.producer_epoch + 1,
        last_epoch=transaction.producer_epoch if by_itself else NONE,
        state=State.PREPARE_ABORT,
        updated_ms=now_ms,
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """All its markers are written. The id rotates where the epochs are used up."""
    rotates = transaction.next_producer_id != NONE
    return replace(
        transaction,
        producer_id=transaction.next_producer_id if rotates else transaction.producer_id,
        producer_epoch=0 if rotates else transaction.producer_epoch,
        previous_producer_id=(
            transaction.producer_id if rotates else transaction.previous_producer_id
        ),
        next_producer_id=NONE,
        state=State.COMPLETE_COMMIT if transaction.commits else State.COMPLETE_ABORT,
        partitions=frozenset(),
        started_ms=NONE,
        # A clock that goes back must not make the record older than the decision.
        updated_ms=max(now_ms, transaction.updated_ms),
    )
