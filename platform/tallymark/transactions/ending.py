"""EndTxn: the outcome is decided, and that is final.

What a client gets that is the present one, by the state:

=====================  =====================================  ====================================
state                  before Kafka 4                         TV2 (KIP-890)
=====================  =====================================  ====================================
Ongoing                decided                                decided, with the epoch raised
Prepare                same outcome 51, other 48              51: its next transaction has to wait
Complete               same outcome 0, other 48               abort: raised; commit: 48
Empty                  48                                     abort: raised; commit: 48
=====================  =====================================  ====================================

48 is INVALID_TXN_STATE, 51 CONCURRENT_TRANSACTIONS. In TV2 a client may abort without knowing
whether anything was added. A client of TV2 that got no answer asks again with the epoch
from before: Prepare 51, Complete the same answer; with the other outcome 48.
"""

from __future__ import annotations

from tallymark.transactions.inputs import (
    ASK_WITH_ID,
    CONCURRENT,
    FENCED,
    INVALID_STATE,
    UNKNOWN_ID,
    Decision,
    End,
    refused,
)
from tallymark.transactions.transaction import (
    COMPLETE,
    NONE,
    PREPARED,
    TV2,
    State,
    Transaction,
    completed,
    fenced,
    prepared,
)


def decide_end(
    transaction: Transaction | None,
    request: End,
    *,
    pending: bool,
    new_producer_id: int,
    now_ms: int,
) -> Decision:
    """``pending``: the last record of the id is not committed. ``new_producer_id`` may be -1; the
    decision says where one is needed."""
    if transaction is None:
        return refused(UNKNOWN_ID)
    if pending:
        return refused(CONCURRENT)
    if _asks_again(transaction, request):
        return _same_answer(transaction, request)
    if transaction.state in PREPARED and request.producer_id == transaction.next_producer_id:
        return refused(CONCURRENT)
    if request.producer_id != transaction.producer_id:
        return refused(UNKNOWN_ID)
    if request.producer_epoch != transaction.producer_epoch:
        return refused(FENCED)
    if transaction.state is State.ONGOING or (
        request.version >= TV2 and not request.commit and transaction.state not in PREPARED
    ):
        return _decided(transaction, request, new_producer_id, now_ms)
    if transaction.state in PREPARED and request.version >= TV2:
        return refused(CONCURRENT)
    if request.version >= TV2 or transaction.state is State.EMPTY:
        return refused(INVALID_STATE)
    return _same_answer(transaction, request)


def decide_abort(
    transaction: Transaction, request_epoch: int, *, pending: bool, now_ms: int
) -> Decision:
    """The coordinator aborts what is overdue, if it is still what it was when that was found."""
    if transaction.state is not State.ONGOING or transaction.producer_epoch != request_epoch:
        return Decision()
    return refused(CONCURRENT) if pending else Decision(after=fenced(transaction, now_ms))


def decide_completed(transaction: Transaction, producer_epoch: int, now_ms: int) -> Decision:
    """All markers of the outcome with this epoch are written."""
    if transaction.state not in PREPARED or transaction.producer_epoch != producer_epoch:
        return Decision()
    return Decision(after=completed(transaction, now_ms))


def _decided(transaction: Transaction, request: End, new_producer_id: int, now_ms: int) -> Decision:
    rotates = request.version >= TV2 and transaction.is_exhausted
    if rotates and new_producer_id == NONE:
        return ASK_WITH_ID
    next_id = new_producer_id if rotates else NONE
    after = prepared(transaction, request.commit, request.version, next_id, now_ms)
    if rotates:
        return Decision(0, after, next_id, 0)
    return Decision(0, after, after.producer_id, after.producer_epoch)


def _asks_again(transaction: Transaction, request: End) -> bool:
    """An end by this client has raised the epoch, and it got no answer."""
    if request.version < TV2 or transaction.last_epoch == NONE:
        return False
    if transaction.state not in PREPARED | COMPLETE:
        return False
    if request.producer_epoch != transaction.last_epoch:
        return False
    rotated = transaction.state in COMPLETE and transaction.producer_epoch == 0
    before = transaction.previous_producer_id if rotated else transaction.producer_id
    return request.producer_id == before


def _same_answer(transaction: Transaction, request: End) -> Decision:
    if request.commit is not transaction.commits:
        return refused(INVALID_STATE)
    if transaction.state in PREPARED:
        return refused(CONCURRENT)
    return Decision(0, None, transaction.producer_id, transaction.producer_epoch)
