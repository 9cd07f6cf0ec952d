"""The end of a batch: tell the interceptors, then those who wait for its records."""

from __future__ import annotations

import asyncio
import logging
from itertools import count, repeat
from typing import Final

from tallymark.client.batch import ProducerBatch
from tallymark.client.budget import MemoryBudget
from tallymark.client.delivery import RecordMetadata, settle
from tallymark.client.interceptor_chain import InterceptorChain
from tallymark.client.interceptors import BatchTally

log: Final = logging.getLogger(__name__)


class Settler:
    """Announces and settles batches. Every batch is settled once. Lives in the I/O thread.

    Interceptors come first: when a Delivery says that a record is in the log, the audit's journal
    has it already.
    """

    def __init__(
        self,
        chain: InterceptorChain,
        budget: MemoryBudget,
        instance: bytes,
        server: str,
        backfill: bool,
    ) -> None:
        self._chain = chain
        self._budget = budget
        self._origin = (instance, server)
        self._backfill = backfill
        self._waiters: list[tuple[set[ProducerBatch], asyncio.Future[None]]] = []

    def announce(self, batch: ProducerBatch) -> None:
        """The batch is sealed: its stamped records are accepted."""
        if not batch.stamped:
            return
        instance, server = self._origin
        batch.tally = BatchTally(
            batch.topic,
            batch.partition,
            instance,
            server,
            batch.first_stamp,
            batch.timestamps,
            batch.payload,
            self._backfill,
        )
        self._chain.on_send(batch.tally)

    def acknowledged(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        """The batch is in the log from ``base_offset`` on (-1: the broker did not say);
        ``append_time_ms`` is -1 unless the broker has put its own time on the records."""
        if batch.tally is not None:
            self._chain.on_acknowledged(batch.tally, base_offset)
        topic, partition = batch.topic, batch.partition
        timestamps = batch.timestamps if append_time_ms < 0 else [append_time_ms] * batch.count
        offsets = repeat(-1) if base_offset < 0 else count(base_offset)
        settle(
            batch.deliveries,
            map(RecordMetadata, repeat(topic), repeat(partition), offsets, timestamps),
        )
        for index in batch.callbacks:
            self._call(batch, index, None)
        self._end(batch)

    def failed(self, batch: ProducerBatch, error: Exception, in_doubt: bool) -> None:
        """The batch is given up."""
        if batch.tally is not None:
            self._chain.on_failed(batch.tally, error, in_doubt)
        settle(batch.deliveries, repeat(error))
        for index in batch.callbacks:
            self._call(batch, index, error)
        self._end(batch)

    async def wait_for(self, batches: set[ProducerBatch]) -> None:
        """Return when all of ``batches`` are settled."""
        if not batches:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (batches, future)
        self._waiters.append(entry)
        try:
            await future
        finally:
            self._waiters.remove(entry)

    def _call(self, batch: ProducerBatch, index: int, error: Exception | None) -> None:
        metadata = None if error else batch.deliveries[index].result()
        try:
            batch.callbacks[index](error, metadata)
        except Exception:
            log.exception("an on_delivery callback for %s-%d failed", batch.topic, batch.partition)

    def _end(self, batch: ProducerBatch) -> None:
        batch.settled = True
        self._budget.release(batch.reserved)
        for batches, future in self._waiters:
            batches.discard(batch)
            if not batches and not future.done():
                future.set_result(None)
