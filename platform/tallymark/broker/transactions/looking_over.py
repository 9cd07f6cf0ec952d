"""Aborts transactions that are open for too long, and forgets ids that were not used for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.transactions.shard import TransactionShard
from tallymark.broker.transactions.shards import TransactionShards
from tallymark.errors import KafkaError
from tallymark.transactions.state import expired, overdue
from tallymark.transactions.transaction import Transaction

log: Final = logging.getLogger(__name__)

_IDS_A_TURN: Final = 500


class LooksOverTransactions:
    """The background tasks, between :meth:`start` and :meth:`stop`. ``now_ms``: wall clock."""

    def __init__(
        self, shards: TransactionShards, settings: BrokerSettings, now_ms: Callable[[], int]
    ) -> None:
        self._shards = shards
        self._settings = settings
        self._now_ms = now_ms
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        settings, after_ms = self._settings, self._settings.transactional_id_expiration_ms
        abort_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        forget_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self._tasks = [
            asyncio.create_task(
                _forever(abort_ms, lambda shard: abort_overdue(shard, self._now_ms()), self._shards)
            ),
            asyncio.create_task(
                _forever(
                    forget_ms,
                    lambda shard: forget_expired(shard, self._now_ms(), after_ms),
                    self._shards,
                )
            ),
        ]

    async def stop(self) -> None:
        """End. Idempotent."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def abort_overdue(shard: TransactionShard, now_ms: int) -> Iterator[None]:
    """Abort what is open for longer than its client has set; yields after each part of the work."""
    ids = iter(shard.state.busy)
    while part := tuple(islice(ids, _IDS_A_TURN)):
        for transaction in overdue(part, now_ms):
            shard.abort_overdue(transaction)
        yield


def forget_expired(shard: TransactionShard, now_ms: int, after_ms: int) -> Iterator[None]:
    """Forget what was not used for ``after_ms``; yields after each part of the work. Raises
    KafkaError where that cannot be appended."""
    ids: Iterator[Transaction] = iter(shard.state)
    gone = 0
    while part := tuple(islice(ids, _IDS_A_TURN)):
        gone += shard.forget(expired(part, now_ms, after_ms))
        yield
    if gone:
        log.info("transactional ids forgotten partition=%s ids=%d", shard.partition, gone)


async def _forever(
    interval_ms: int,
    look: Callable[[TransactionShard], Iterator[None]],
    shards: TransactionShards,
) -> None:
    while True:
        await asyncio.sleep(interval_ms / 1000)
        for shard in shards.shards():
            try:
                for _ in look(shard):
                    await asyncio.sleep(0)
                    if shard.closed:
                        break
            except KafkaError as error:
                log.error("%s: transactions are not looked over: %s", shard.partition, error)
            except Exception:
                # An error in one partition must not keep transactions of all others open for ever.
                log.exception("%s: looking over transactions failed", shard.partition)
