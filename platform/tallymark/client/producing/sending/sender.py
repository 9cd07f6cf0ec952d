"""The sending half of a producer: decides when which partitions may send.

It is one function, :meth:`Sender._pump`, called in the I/O thread whenever something may have
become possible: a batch was sealed, its linger is over, a response, a connection, metadata or a
producer id came, a back-off ended. It never waits. The
:class:`~tallymark.client.producing.batches.pipeline.Pipeline` of a partition keeps its order and
retries, the :class:`~tallymark.client.producing.sending.dispatcher.Dispatcher` sends the requests,
:class:`~tallymark.client.producing.sending.answers.Answers` handles the results.

The pump looks only at partitions that have batches to send. It looks at all partitions when a batch
may have lingered long enough or come back (``_scan_at``), and at each tick.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.producing.batches.accumulator import Accumulator
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.handover import Handover
from tallymark.client.producing.batches.partition_queue import PartitionQueue
from tallymark.client.producing.interceptors.chain import InterceptorChain
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.client.producing.sending.answers import Answers
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.batch_completion import BatchCompletion
from tallymark.client.producing.sending.dispatcher import Dispatcher, SendRules
from tallymark.client.producing.sending.produce_response import Entry
from tallymark.client.producing.sending.producer_ids import ProducerIds
from tallymark.clock import now_ms
from tallymark.errors import TallymarkError, TimedOutError

TICK: Final = 0.2
"""Seconds between two calls of the interceptors' on_tick; also how exact deadlines are."""
_NEVER: Final = float("inf")
_Entry: TypeAlias = Entry[PartitionQueue, ProducerBatch]


class Sender:
    """See the module's text. All methods belong to the I/O thread."""

    def __init__(
        self,
        io: IoThread,
        cluster: Cluster,
        rules: SendRules,
        completion: BatchCompletion,
        chain: InterceptorChain,
        stages: QueueStages,
        metrics: ProducerMetrics,
    ) -> None:
        self.accumulator: Accumulator
        """Set by the owner before anything is sent."""
        self.on_tick: Callable[[], None] = lambda: None
        """Called at every tick, before the interceptors are."""
        self.handover = Handover(lambda: io.call(self._pump))
        self._io = io
        self._cluster = cluster
        self._rules = rules
        self._completion = completion
        self._chain = chain
        self._stages = stages
        self._metrics = metrics
        self._background = BackgroundRefresh(cluster, rules.retry_backoff, self._pump)
        answers = Answers(rules.retry_backoff, completion, stages, metrics, self._background)
        self.acknowledged, self.refused = answers.acknowledged, answers.refused
        self._dispatcher = Dispatcher(cluster, rules, self._background, self, self._pump)
        self._active: dict[PartitionQueue, None] = {}
        """Partitions with an open, sealed, pending or travelling batch."""
        self._ready: dict[PartitionQueue, None] = {}
        """Those of them that have batches to send."""
        self._urgent = 0
        self._scan_at = _NEVER
        self._ticker: asyncio.TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to tick."""
        self._ticker = self._io.loop.call_later(TICK, self._tick)

    def take_ids(self, ids: ProducerIds, on_lost: Callable[[TallymarkError], None]) -> None:
        """Use the ids of a transactional producer, which is notified of batches that are lost."""
        self._background.ids = ids
        self._completion.on_lost = on_lost

    def bound_version(self, highest: int | None) -> None:
        """The highest version of Produce from now on; None: what both sides know."""
        self._dispatcher.highest_version = highest

    def pump(self) -> None:
        """What kept batches back may be over: look."""
        self._pump()

    async def flush(self) -> None:
        """Seal everything now; return when all that send() has taken so far is settled."""
        self._urgent += 1
        try:
            self._pump()
            await self._completion.wait_for({b for b in self._open_batches() if b.user_records})
        finally:
            self._urgent -= 1

    def flushed(self) -> None:
        """Notify the interceptors of the end of a flush()."""
        if self._chain:
            self._chain.on_flush(now_ms(), self._oldest_pending())

    def transaction_is(self, stage: TransactionStage) -> None:
        """Notify the interceptors of how far the transaction is."""
        if self._chain:
            self._chain.on_transaction(stage)

    def hurry(self) -> None:
        """From now on nothing lingers."""
        self._urgent += 1

    def unsettled(self) -> int:
        """How many records send() has taken that are not settled."""
        self._collect()
        self._scan(time.monotonic(), seal_all=True)
        return sum(batch.user_records for batch in self._open_batches())

    def give_up(self, error: TallymarkError, only_transactional: bool = False) -> None:
        """Settle everything as failed, or in doubt where bytes have left; ``only_transactional``:
        but for what is sent outside of transactions."""
        self._collect()
        self._scan(time.monotonic(), seal_all=True)
        for queue in self._active:
            if only_transactional and not queue.pipeline.transactional:
                continue
            for batch in queue.pipeline.abandon():
                self._completion.failed(batch, error, batch.ambiguous)

    async def stop(self) -> None:
        """Send and tick no more."""
        self._stopped = True
        self._dispatcher.stop()
        if self._ticker is not None:
            self._ticker.cancel()
        await self._background.close()

    def _open_batches(self) -> list[ProducerBatch]:
        return [batch for queue in self._active for batch in queue.pipeline.unsettled()]

    # --- the pump ---------------------------------------------------------------------------

    def _pump(self, *_: Any) -> None:
        self.handover.begin_pump(self._ready)
        if self._stopped:
            return
        accumulator = self.accumulator
        now = time.monotonic()
        self._collect()
        hurry = bool(self._urgent or accumulator.buffer.waiting)
        if hurry or now >= self._scan_at or not accumulator.rules.linger:
            self._scan(now, seal_all=hurry)
        self._send_all(now)
        self._rest(now, hurry)

    def _collect(self) -> None:
        """Take over the partitions that threads that send have listed."""
        begun, full = self.handover.begun, self.handover.full
        while begun:
            self._active[begun.popleft()] = None
        while full:
            self._take_sealed(full.popleft())

    def _take_sealed(self, queue: PartitionQueue) -> None:
        while queue.sealed:
            batch = queue.sealed.popleft()
            self._completion.announce(batch)
            queue.pipeline.add(batch)
            self._ready[queue] = None

    def _scan(self, now: float, seal_all: bool) -> None:
        """Look through all partitions: seal what has lingered long enough (where something waits
        already it may go on filling), find what may be sent again, forget those that are done."""
        linger = self.accumulator.rules.linger
        self._scan_at = _NEVER
        for queue in list(self._active):
            pipeline = queue.pipeline
            filling = queue.open
            if filling is not None:
                if seal_all or (filling.created + linger <= now and not pipeline.pending):
                    self._seal(queue)
                else:
                    self._scan_at = min(self._scan_at, max(filling.created + linger, now + 0.001))
            if queue.sealed:
                self._take_sealed(queue)
            if pipeline.pending:
                self._ready[queue] = None
            elif pipeline.idle and self.handover.forget_queue(queue):
                del self._active[queue]

    def _seal(self, queue: PartitionQueue) -> None:
        with queue.lock:
            queue.seal()
        self._take_sealed(queue)

    def _expire(self, now: float) -> None:
        timeout = self.accumulator.rules.delivery_timeout
        for queue in self._active:
            for batch in queue.pipeline.expired(now):
                last = (
                    f"; last problem: {self._background.problem}"
                    if self._background.problem
                    else ""
                )
                error = TimedOutError(f"{batch.describe()} not delivered in {timeout:g} s{last}")
                self._completion.failed(batch, error, batch.ambiguous)

    def _send_all(self, now: float) -> None:
        sendable: list[PartitionQueue] = []
        for queue in list(self._ready):
            pipeline = queue.pipeline
            if not pipeline.pending:
                del self._ready[queue]
            elif pipeline.next(now, self._background.ids.newest) is not None:
                sendable.append(queue)
            elif pipeline.needs_identity and self._background.ids.newest == pipeline.identity:
                self._want_identity(queue)
        self._dispatcher.dispatch(sendable, now)

    def _rest(self, now: float, hurry: bool) -> None:
        """Plan when the pump runs next; until then threads that send need not wake it."""
        backlog, crowded = 0, list[PartitionQueue]()
        linger = self.accumulator.rules.linger
        for queue in self._ready:
            pipeline = queue.pipeline
            waiting = len(pipeline.pending)
            if waiting:
                crowded.append(queue)
                backlog += waiting
                if pipeline.retry_at > now:
                    self._scan_at = min(self._scan_at, pipeline.retry_at)
            elif (filling := queue.open) is not None:  # it no longer has to wait for others
                self._scan_at = min(self._scan_at, filling.created + linger)
        self.handover.end_pump(crowded, backlog)
        if not self._active and not backlog:
            self._scan_at = _NEVER
            return
        self._scan_at = min(self._scan_at, now + max(linger, 0.001))
        self._dispatcher.pump_at(self._scan_at)
        if not hurry:
            self.handover.plan_scan(self._scan_at)

    def _want_identity(self, queue: PartitionQueue) -> None:
        error = self._background.ids.error
        if error is None or queue.pipeline.in_flight:
            self._background.ids.request()
            return
        for batch in queue.pipeline.abandon():
            self._completion.failed(batch, error, batch.ambiguous)
        self._background.ids.error = None

    # --- of the dispatcher ------------------------------------------------------------------

    def next_batch(self, queue: PartitionQueue, now: float) -> ProducerBatch | None:
        """See :class:`~tallymark.client.producing.sending.dispatcher.BatchOwner`; so with the
        others."""
        return queue.pipeline.next(now, self._background.ids.newest)

    def no_leader(self, queue: PartitionQueue, now: float) -> None:
        self._background.want_metadata()

    def uses_zstd(self, entries: Sequence[_Entry]) -> bool:
        return self._rules.compression == "zstd"

    def sending(self, entries: Sequence[_Entry]) -> None:
        if self._stages.batches:
            for _, batch in entries:
                self._stages.sending(batch)

    def sent(self, entries: Sequence[_Entry], size: int) -> None:
        self._metrics.requests += 1
        self._metrics.bytes_sent += size
        if self._rules.acks:
            self._metrics.requests_in_flight += 1
        for _, batch in entries:
            batch.attempts += 1
            if self._stages.batches:
                self._stages.sent(batch)

    def answered(self, seconds: float | None) -> None:
        self._metrics.requests_in_flight -= 1
        if seconds is None:
            self.handover.wake()  # a connection that has died calls no after_answers
        else:
            self._metrics.answered(seconds)

    # --- time -------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticker = self._io.loop.call_later(TICK, self._tick)
        now = now_ms()  # before looking: see ProducerInterceptor.on_tick
        self._expire(time.monotonic())
        self._scan_at = 0.0
        self._pump()
        self._cluster.refresh_if_old()
        self.on_tick()
        if self._chain:
            self._chain.on_tick(now, self._oldest_pending())

    def _oldest_pending(self) -> int | None:
        oldest: int | None = None
        for queue in self._active:
            with queue.lock:
                waiting = [*queue.sealed, queue.open] if queue.open else list(queue.sealed)
                found = [batch.oldest for batch in waiting if batch.stamped]
            found += [batch.oldest for batch in queue.pipeline.unsettled() if batch.stamped]
            oldest = min([*found, oldest] if oldest is not None else found, default=None)
        return oldest if oldest is not None and oldest < 2**63 else None
