"""InitProducerId: a producer begins, or goes on after an error (KIP-360).

======================  ==========================================================================
id not known            begins with a new producer id, epoch 0
open transaction        it is aborted, which fences its producer; the answer is
                        CONCURRENT_TRANSACTIONS until that is complete: the client asks again
outcome decided         CONCURRENT_TRANSACTIONS
else                    the epoch is raised; a used up id rotates
======================  ==========================================================================

A client that sends its (producer id, epoch) must have the present ones, or those from before its
own request raised them: then it asks again, and gets the same answer. Anything else is
PRODUCER_FENCED. In Kafka a client whose own request aborts its open transaction is fenced by that;
here it asks again.
"""

from __future__ import annotations

from dataclasses import replace

from tallymark.transactions.inputs import (
    ASK_WITH_ID,
    CONCURRENT,
    FENCED,
    Decision,
    Initialise,
    refused,
)
from tallymark.transactions.transaction import (
    LAST_EPOCH,
    NONE,
    PREPARED,
    State,
    Transaction,
    begun,
    fenced,
)


def decide_initialise(
    transaction: Transaction | None,
    request: Initialise,
    *,
    pending: bool,
    new_producer_id: int,
    now_ms: int,
) -> Decision:
    """``pending``: the last record of the id is not committed. ``new_producer_id`` may be -1; the
    decision says where one is needed."""
    if transaction is None:
        if new_producer_id == NONE:
            return ASK_WITH_ID
        id_ = request.transactional_id
        return _given(begun(id_, new_producer_id, request.timeout_ms, now_ms))
    if pending or transaction.state in PREPARED:
        return refused(CONCURRENT)
    asks_again = _asks_again(transaction, request)
    if request.producer_id != NONE and not asks_again and not _is_current(transaction, request):
        return refused(FENCED)
    if transaction.state is State.ONGOING:
        by_itself = request.producer_id != NONE
        return Decision(CONCURRENT, fenced(transaction, now_ms, by_itself=by_itself))
    return _next_epoch(transaction, request, asks_again, new_producer_id, now_ms)


def _next_epoch(
    transaction: Transaction,
    request: Initialise,
    asks_again: bool,
    new_producer_id: int,
    now_ms: int,
) -> Decision:
    begins = replace(
        transaction,
        timeout_ms=request.timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        started_ms=NONE,
        updated_ms=now_ms,
    )
    if asks_again and transaction.producer_epoch <= LAST_EPOCH:
        return _given(begins)
    # Only a client that has sent its epoch can come back with it.
    last_epoch = request.producer_epoch
    if not transaction.is_exhausted:
        epoch = transaction.producer_epoch + 1
        return _given(replace(begins, producer_epoch=epoch, last_epoch=last_epoch))
    if new_producer_id == NONE:
        return ASK_WITH_ID
    return _given(
        replace(
            begins,
            producer_id=new_producer_id,
            producer_epoch=0,
            previous_producer_id=transaction.producer_id,
            last_epoch=last_epoch,
        )
    )


def _is_current(transaction: Transaction, request: Initialise) -> bool:
    return (request.producer_id, request.producer_epoch) == (
        transaction.producer_id,
        transaction.producer_epoch,
    )


def _asks_again(transaction: Transaction, request: Initialise) -> bool:
    """The epoch was raised for this client, and it got no answer."""
    if request.producer_id == NONE or request.producer_epoch != transaction.last_epoch:
        return False
    rotated = transaction.producer_epoch == 0
    before = transaction.previous_producer_id if rotated else transaction.producer_id
    return request.producer_id == before


def _given(after: Transaction) -> Decision:
    return Decision(0, after, after.producer_id, after.producer_epoch)
