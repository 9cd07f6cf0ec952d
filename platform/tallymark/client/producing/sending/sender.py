"""The sending half of a producer: takes sealed batches to the leaders of their partitions.

It is one function, :meth:`Sender._pump`, called in the I/O thread whenever something may have
become possible: a batch was sealed, its linger is over, a response, a connection, metadata or a
producer id came, a back-off ended. It waits for nothing. Order and retries of a partition are the
business of its :class:`~tallymark.client.producing.batches.pipeline.Pipeline`, what an answer leads
to that of :class:`~tallymark.client.producing.sending.answers.Answers`.

The pump looks only at partitions that have something to send; all of them are looked through when
something may have lingered long enough or come back (``_scan_at``), and at each tick.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.producing.batches.accumulator import Accumulator
from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.handover import Handover
from tallymark.client.producing.batches.partition_queue import PartitionQueue
from tallymark.client.producing.interceptors.chain import InterceptorChain
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.client.producing.sending.answers import Answers, SendRules
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.batch_completion import BatchCompletion
from tallymark.client.producing.sending.produce_request import (
    Entry,
    produce_version,
    request_writer,
)
from tallymark.clock import now_ms
from tallymark.errors import KafkaError, LocalProtocolError, TallymarkError, TimedOutError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.wire.produce_client import read_produced

TICK: Final = 0.2
"""Seconds between two calls of the interceptors' on_tick; also how exact deadlines are."""
MAX_REQUEST_BYTES: Final = 1024 * 1024
_UNWRITABLE_PAUSE: Final = 0.005
_NEVER: Final = float("inf")


class _Dialect(NamedTuple):
    """The Produce version of a connection, and what reads its answers."""

    stream: BrokerConnection
    version: int
    read: Callable[[memoryview], Any]


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
        self._answers = Answers(cluster, rules, completion, stages, metrics, self._background)
        self._active: dict[PartitionQueue, None] = {}
        """Partitions with an open, sealed, pending or travelling batch."""
        self._ready: dict[PartitionQueue, None] = {}
        """Those of them that have batches to send."""
        self._urgent = 0
        self._in_flight: dict[Address, int] = {}
        self._dialects: dict[Address, _Dialect] = {}
        self._scan_at = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to tick."""
        self._ticker = self._io.loop.call_later(TICK, self._tick)

    async def flush(self) -> None:
        """Seal everything now; return when all that send() has taken so far is settled."""
        self._urgent += 1
        try:
            self._pump()
            await self._completion.wait_for({b for b in self._open_batches() if b.user_records})
        finally:
            self._urgent -= 1

    def flushed(self) -> None:
        """Tell the interceptors that a flush() is over."""
        if self._chain:
            self._chain.on_flush(now_ms(), self._oldest_pending())

    def hurry(self) -> None:
        """From now on nothing lingers."""
        self._urgent += 1

    def unsettled(self) -> int:
        """How many records send() has taken that are not settled."""
        self._collect()
        self._scan(time.monotonic(), seal_all=True)
        return sum(batch.user_records for batch in self._open_batches())

    def give_up(self, error: TallymarkError) -> None:
        """Settle everything as failed, or in doubt where bytes have left."""
        self._collect()
        self._scan(time.monotonic(), seal_all=True)
        for queue in self._active:
            for batch in queue.pipeline.abandon():
                self._completion.failed(batch, error, batch.ambiguous)

    async def stop(self) -> None:
        """Send and tick no more."""
        self._stopped = True
        for handle in (self._timer, self._ticker):
            if handle is not None:
                handle.cancel()
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
        by_leader: dict[Address, list[PartitionQueue]] = {}
        for queue in list(self._ready):
            pipeline = queue.pipeline
            if not pipeline.pending:
                del self._ready[queue]
                continue
            if pipeline.next(now, self._background.ids.newest) is None:
                if pipeline.needs_identity and self._background.ids.newest == pipeline.identity:
                    self._want_identity(queue)
                continue
            address = self._cluster.leader_address(queue.topic, queue.partition)
            if address is None:
                self._background.want_metadata()
            else:
                by_leader.setdefault(address, []).append(queue)
        for address, queues in by_leader.items():
            self._send_to(address, queues, now)

    def _send_to(self, address: Address, queues: list[PartitionQueue], now: float) -> None:
        """Requests to one broker, until it has enough in flight or nothing more may go."""
        stream = self._cluster.connections.ready(address)
        if stream is None:
            again_at = self._background.want_connection(address, now)
            if again_at is not None:
                self._scan_at = min(self._scan_at, again_at)
            return
        stream.after_answers = self._pump
        while self._in_flight.get(address, 0) < self._rules.max_in_flight:
            if not stream.writable:
                self._scan_at = min(self._scan_at, now + _UNWRITABLE_PAUSE)
                break
            entries = self._fill_request(queues, now)
            if not entries or not self._submit(address, stream, entries, now):
                break
        stream.push()

    def _fill_request(self, queues: list[PartitionQueue], now: float) -> list[Entry]:
        entries: list[Entry] = []
        room = MAX_REQUEST_BYTES
        for queue in queues:
            batch = queue.pipeline.next(now, self._background.ids.newest)
            if batch is None or (entries and batch.size > room):
                continue
            queue.pipeline.sent(batch)
            entries.append((queue, batch))
            room -= batch.size
        return entries

    def _submit(
        self, address: Address, stream: BrokerConnection, entries: list[Entry], now: float
    ) -> bool:
        """Hand one request over; False when nothing more may be sent to this broker now."""
        rules = self._rules
        if self._stages.batches:
            for _, batch in entries:
                self._stages.sending(batch)
        try:
            dialect = self._dialect(address, stream)
            write, size = request_writer(
                entries,
                dialect.version,
                rules.acks,
                rules.request_timeout,
                (rules.compression, rules.compression_level),
                self._cluster.metadata,
            )
            if rules.acks == 0:
                stream.post_written(write, "Produce")
            else:
                stream.exchange(
                    write,
                    dialect.read,
                    partial(self._answered, address, entries, now),
                    rules.request_timeout,
                    "Produce",
                )
        except (KafkaError, LocalProtocolError) as error:
            self._answers.not_sent(entries, error)
            return False
        self._metrics.requests += 1
        self._metrics.bytes_sent += size
        for _, batch in entries:
            batch.attempts += 1
        if rules.acks == 0:
            stream.push()
            self._answers.unseen(entries)
        else:
            self._metrics.requests_in_flight += 1
            self._in_flight[address] = self._in_flight.get(address, 0) + 1
        if self._stages.batches:
            for _, batch in entries:
                self._stages.sent(batch)
        return True

    def _dialect(self, address: Address, stream: BrokerConnection) -> _Dialect:
        """How to speak on a connection; KafkaError if there is no way."""
        dialect = self._dialects.get(address)
        if dialect is None or dialect.stream is not stream:
            version = produce_version(stream, self._rules.compression)
            dialect = _Dialect(stream, version, partial(read_produced, version=version))
            self._dialects[address] = dialect
        return dialect

    def _answered(
        self,
        address: Address,
        entries: list[Entry],
        sent_at: float,
        response: Any,
        error: TallymarkError | None,
    ) -> None:
        """The pump follows, once for all answers that came together."""
        self._in_flight[address] -= 1
        self._metrics.requests_in_flight -= 1
        if error is not None:
            self._answers.lost(entries, error)
            self.handover.wake()  # nobody calls after_answers of a connection that has died
        else:
            self._answers.take(entries, response)
            self._metrics.answered(time.monotonic() - sent_at)

    def _rest(self, now: float, hurry: bool) -> None:
        """See when the pump is needed next, and let senders know what they need not tell."""
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
        self._wake_at(self._scan_at)
        if not hurry:
            self.handover.plan_scan(self._scan_at)

    def _wake_at(self, at: float) -> None:
        """Run the pump at ``at`` at the latest."""
        if self._timer is not None:
            if not self._timer.cancelled() and time.monotonic() < self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._io.loop.call_at(at, self._pump)

    def _want_identity(self, queue: PartitionQueue) -> None:
        error = self._background.ids.error
        if error is None or queue.pipeline.in_flight:
            self._background.ids.request()
            return
        for batch in queue.pipeline.abandon():
            self._completion.failed(batch, error, batch.ambiguous)
        self._background.ids.error = None

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
