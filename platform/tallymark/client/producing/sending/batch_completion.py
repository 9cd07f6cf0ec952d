"""The end of a batch: notify the interceptors, then complete the deliveries of its records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tallymark.client.metrics import Metrics
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.buffer_memory import BufferMemory
from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.chain import InterceptorChain
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.errors import TallymarkError

log: Final = logging.getLogger(__name__)


class BatchCompletion:
    """Announces and settles batches. Every batch is settled once. Lives in the I/O thread.

    Interceptors come first: when a Delivery says that a record is in the log, the audit's journal
    has it already.
    """

    def __init__(
        self,
        chain: InterceptorChain,
        stages: QueueStages,
        metrics: ProducerMetrics,
        buffer: BufferMemory,
        instance: bytes,
        server: str,
        backfill: bool,
    ) -> None:
        self._chain = chain
        self._stages = stages
        self._metrics = metrics
        self._buffer = buffer
        self._origin = (instance, server)
        self._backfill = backfill
        self.metrics: Metrics | None = None
        """Called for every batch (:mod:`tallymark.client.metrics`)."""
        self.on_lost: Callable[[TallymarkError], None] | None = None
        """Called for every batch of the application that is given up."""
        self._waiters: list[tuple[set[ProducerBatch], asyncio.Future[None]]] = []

    def announce(self, batch: ProducerBatch) -> None:
        """The batch is sealed: its stamped records are accepted."""
        if batch.stamped and self._chain:
            batch.tally = self._tally(batch, batch.payload)
            self._chain.on_send(batch.tally)
        self._stages.sealed(batch)

    def acknowledged(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        """The batch is in the log from ``base_offset`` on (-1: the broker did not say);
        ``append_time_ms`` is -1 unless the broker has put its own time on the records."""
        if self.metrics is not None:
            self.metrics("records_acknowledged", batch.count, {"topic": batch.topic})
        if batch.tally is not None:
            self._chain.on_acknowledged(batch.tally, base_offset)
        self._stages.acknowledged(batch, base_offset)
        self._metrics.batches_acknowledged += 1
        self._metrics.records_acknowledged += batch.count
        batch.result.acknowledged(base_offset, append_time_ms)
        self._end(batch)

    def failed(self, batch: ProducerBatch, error: TallymarkError, in_doubt: bool) -> None:
        """The batch is given up."""
        if self.metrics is not None:
            name = "records_in_doubt" if in_doubt else "records_failed"
            self.metrics(name, batch.count, {"topic": batch.topic})
        if batch.tally is not None:
            self._chain.on_failed(batch.tally, error, in_doubt)
        self._stages.failed(batch, error, in_doubt)
        self._metrics.batches_failed += 1
        self._metrics.records_failed += batch.count
        batch.result.failed(error)
        self._end(batch)
        if self.on_lost is not None and batch.user_records:
            self.on_lost(error)

    def split(self, batch: ProducerBatch, halves: tuple[ProducerBatch, ProducerBatch]) -> None:
        """The batch goes on as two; each of them will be settled."""
        self._metrics.batches_split += 1
        if batch.tally is not None:
            whole = batch.tally.sizes
            sizes = halves[0].payload
            for half, size in zip(halves, (sizes, whole - sizes), strict=True):
                half.tally = self._tally(half, size)
            self._chain.on_split(batch.tally, [half.tally for half in halves if half.tally])
        batch.let_go()
        for batches, _ in self._waiters:
            if batch in batches:
                batches.discard(batch)
                batches.update(halves)

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

    def _tally(self, batch: ProducerBatch, sizes: int) -> BatchTally:
        instance, server = self._origin
        return BatchTally(
            batch.topic,
            batch.partition,
            instance,
            server,
            batch.first_stamp,
            batch.timestamps,
            sizes,
            self._backfill,
            batch.span,
            batch.values,
            batch.keys,
        )

    def _end(self, batch: ProducerBatch) -> None:
        for index, call in batch.callbacks.items():
            error = batch.result.error
            try:
                call(error, None if error else batch.result.metadata(index))
            except Exception:
                log.exception(
                    "an on_delivery callback for %s-%d failed", batch.topic, batch.partition
                )
        batch.let_go()
        self._buffer.release(batch.reserved)
        for batches, future in self._waiters:
            batches.discard(batch)
            if not batches and not future.done():
                future.set_result(None)
