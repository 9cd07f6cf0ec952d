"""Transactions that are open for too long, and ids that were not used for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallymark.transactions.transaction import COMPLETE, State, Transaction


def overdue(transactions: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
    """Those that the coordinator aborts: open since the timeout that their client has set."""
    for transaction in transactions:
        at = transaction.is_overdue_at
        if at is not None and at <= now_ms:
            yield transaction


def expired(
    transactions: Iterable[Transaction], now_ms: int, after_ms: int
) -> Iterator[Transaction]:
    """Those whose id is forgotten (``transactional.id.expiration.ms``), but none with an open
    transaction or with markers that are not written."""
    for transaction in transactions:
        is_idle = transaction.state is State.EMPTY or transaction.state in COMPLETE
        if is_idle and transaction.updated_ms + after_ms <= now_ms:
            yield transaction
