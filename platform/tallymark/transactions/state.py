"""The transactional ids in one partition of ``__transaction_state``. Changed only by replay.

An application leaves an id for each of its processes, and few of them have a transaction open at a
time. So an *idle* id is kept as the bytes of its record: a coordinator may have 100,000, and as
many objects would be visited by each full garbage collection, which holds the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tallymark.transactions.idle_ids import IdleIds
from tallymark.transactions.records import (
    TransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    state_in,
)
from tallymark.transactions.transaction import IDLE, State, Transaction


@dataclass(slots=True)
class TransactionsState:
    """The stored state of the transactional ids that one partition owns. ``counts``: how many are
    in each state."""

    counts: Counter[State] = field(default_factory=Counter[State])
    _busy: dict[str, Transaction] = field(default_factory=dict[str, Transaction])
    _idle: IdleIds = field(default_factory=IdleIds)
    """An id is in one of the two."""

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record, in log order. Raises CorruptRecordError and then changes nothing."""
        key, value = record
        transactional_id = decode_key(key)
        if transactional_id is None:
            return
        stored = None if value is None else decode_value(transactional_id, value)
        self._forget(transactional_id)
        if stored is None or value is None:
            return
        self.counts[stored.state] += 1
        if stored.state in IDLE:
            self._idle.put(transactional_id, bytes(value))
        else:
            self._busy[transactional_id] = stored

    def _forget(self, transactional_id: str) -> None:
        busy = self._busy.pop(transactional_id, None)
        if busy is not None:
            self.counts[busy.state] -= 1
        idle = self._idle.pop(transactional_id)
        if idle is not None:
            self.counts[state_in(idle)] -= 1

    def get(self, transactional_id: str) -> Transaction | None:
        """What is stored of the id, or None."""
        idle = self._idle.get(transactional_id)
        if idle is not None:
            return decode_value(transactional_id, idle)
        return self._busy.get(transactional_id)

    @property
    def busy(self) -> tuple[Transaction, ...]:
        """Those with a transaction that is open, or whose markers are not all written."""
        return tuple(self._busy.values())

    def __iter__(self) -> Iterator[Transaction]:
        """All that are there now, each as it is when its turn comes: records may be replayed
        meanwhile."""
        return self._each((*self._busy, *self._idle))

    def _each(self, ids: Sequence[str]) -> Iterator[Transaction]:
        for each in ids:
            stored = self.get(each)
            if stored is not None:
                yield stored

    def __len__(self) -> int:
        return len(self._busy) + len(self._idle)


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
        if transaction.state in IDLE and transaction.updated_ms + after_ms <= now_ms:
            yield transaction
