"""The partitions of ``__transaction_state`` that this broker leads, and the ids in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.shards import Shards
from tallymark.broker.metrics.counters import CoordinatorMetrics
from tallymark.broker.transactions.shard import SendsMarkers, TransactionShard
from tallymark.transactions.markers import Outcome
from tallymark.transactions.state import TransactionsState


class TransactionShards(Shards[TransactionShard, TransactionsState]):
    """The transactional ids whose partition of ``__transaction_state`` is led here. ``sender`` is
    set while the broker starts, before it leads anything. ``now_ms`` is the wall clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__("transactions", TransactionsState, self._shard_of, CoordinatorMetrics())
        self.sender: SendsMarkers = _NotStarted()
        self._now_ms = now_ms

    def _shard_of(self, replayed: ReplayedState[TransactionsState]) -> TransactionShard:
        return TransactionShard(replayed, self.sender, self._now_ms)


class _NotStarted:
    """Before the broker has connections to others nothing is led, and so nothing is sent."""

    def begin(self, outcome: Outcome, completed: Callable[[Outcome], None]) -> None:
        raise AssertionError(f"{outcome.transactional_id}: the broker has not started")

    def drop(self, outcomes: Iterable[Outcome]) -> None:
        """Nothing was begun."""
