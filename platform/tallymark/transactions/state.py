"""The transactional ids in one partition of ``__transaction_state``. Changed only by replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tallymark.transactions.records import (
    TransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tallymark.transactions.transaction import COMPLETE, State, Transaction


@dataclass(slots=True)
class TransactionsState:
    """The stored state of the transactional ids that one partition owns."""

    _transactions: dict[str, Transaction] = field(default_factory=dict[str, Transaction])

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record, in log order. Raises CorruptRecordError and then changes nothing."""
        key, value = record
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        if value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = decode_value(transactional_id, value)

    def get(self, transactional_id: str) -> Transaction | None:
        """What is stored of the id, or None."""
        return self._transactions.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(tuple(self._transactions.values()))

    def __len__(self) -> int:
        return len(self._transactions)


def record_of(transaction: Transaction, version: int = 1) -> TransactionRecord:
    """The record that stores it."""
    return encode_key(transaction.transactional_id), encode_value(transaction, version)


def tombstone(transactional_id: str) -> TransactionRecord:
    """The record that forgets an id."""
    return encode_key(transactional_id), None


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
