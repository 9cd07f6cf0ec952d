"""Partitions join a transaction, and a partition's leader asks whether one has (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tallymark.errors import CODES
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.inputs import (
    CONCURRENT,
    FENCED,
    UNKNOWN_ID,
    Add,
    Decision,
    refused,
)
from tallymark.transactions.transaction import PREPARED, State, Transaction


def decide_add(
    transaction: Transaction | None, request: Add, *, pending: bool, now_ms: int
) -> Decision:
    """The partitions are in the transaction, and it is open. What is in already needs no record.

    While the transaction is open, another partition may join before the one before is committed:
    records have an order, and both answers wait.
    """
    if transaction is None:
        return refused(UNKNOWN_ID)
    is_open = transaction.state is State.ONGOING
    # Before ids and epochs: after a rotation the client has an id that is not in force yet
    # (KAFKA-18660).
    if transaction.state in PREPARED or (pending and not is_open):
        return refused(CONCURRENT)
    if request.producer_id != transaction.producer_id:
        return refused(UNKNOWN_ID)
    if request.producer_epoch != transaction.producer_epoch:
        return refused(FENCED)
    if request.partitions <= transaction.partitions:  # also none at all, which opens nothing
        return Decision()
    return Decision(
        after=replace(
            transaction,
            state=State.ONGOING,
            partitions=transaction.partitions | request.partitions,
            started_ms=transaction.started_ms if is_open else now_ms,
            updated_ms=now_ms,
            version=request.version,
        )
    )


def verify(
    transaction: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, int]:
    """An error code for each partition, 0 where it is in the open transaction of this producer. A
    transition that is not committed does not matter: what it is asked for is
    (KAFKA-14904)."""
    code = _refusal(transaction, producer_id, producer_epoch)
    missing = CODES["TRANSACTION_ABORTABLE"]
    inside = transaction.partitions if transaction is not None else frozenset()
    return {each: code or (0 if each in inside else missing) for each in partitions}


def _refusal(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> int:
    if transaction is None:
        return UNKNOWN_ID
    if transaction.state in PREPARED and producer_id == transaction.next_producer_id:
        return CONCURRENT
    if producer_id != transaction.producer_id:
        return UNKNOWN_ID
    if producer_epoch != transaction.producer_epoch:
        return FENCED
    return CONCURRENT if transaction.state in PREPARED else 0
