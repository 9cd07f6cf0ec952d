"""The sending half of a producer: takes sealed batches to the leaders of their partitions.

It is one function, :meth:`Sender._pump`, called in the I/O thread whenever something may have
become possible: a batch was sealed, its linger is over, a response, a connection, metadata or a
producer id came, a back-off ended. It waits for nothing. Order and retries of a partition are the
business of its :class:`~tallymark.client.pipeline.Pipeline`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tallymark.client.accumulator import Accumulator
from tallymark.client.batch import ProducerBatch
from tallymark.client.cluster import Cluster
from tallymark.client.errands import Errands
from tallymark.client.interceptor_chain import InterceptorChain
from tallymark.client.io_thread import IoThread
from tallymark.client.lane import Lane
from tallymark.client.pipeline import Verdict
from tallymark.client.produce_request import (
    Parcel,
    build_request,
    produce_version,
    read_response,
)
from tallymark.client.settlement import Settler
from tallymark.errors import (
    CODES,
    KafkaError,
    LocalProtocolError,
    TallymarkError,
    TimedOutError,
)
from tallymark.net import Address, Stream
from tallymark.protocol.messages import ProduceResponse

log: Final = logging.getLogger(__name__)

TICK: Final = 0.2
"""Seconds between two calls of the interceptors' on_tick; also how exact deadlines are."""
MAX_REQUEST_BYTES: Final = 1024 * 1024
_UNWRITABLE_PAUSE: Final = 0.005


@dataclass(frozen=True, slots=True)
class SendRules:
    """Times in seconds. ``acks`` is -1, 1 or 0; ``max_in_flight`` requests a connection."""

    acks: int
    compression: str
    request_timeout: float
    retry_backoff: float
    max_in_flight: int


class Sender:
    """See the module's text. All methods but :meth:`wake` belong to the I/O thread."""

    def __init__(
        self,
        io: IoThread,
        cluster: Cluster,
        rules: SendRules,
        settler: Settler,
        chain: InterceptorChain,
    ) -> None:
        self.accumulator: Accumulator
        """Set by the owner before anything is sent."""
        self.on_tick: Callable[[], None] = lambda: None
        """Called at every tick, before the interceptors are."""
        self._io = io
        self._cluster = cluster
        self._rules = rules
        self._settler = settler
        self._chain = chain
        self._errands = Errands(cluster, rules.retry_backoff, self._pump)
        self._active: dict[Lane, None] = {}
        self._woken = False
        self._urgent = 0
        self._in_flight: dict[Address, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._stopped = False

    def wake(self) -> None:
        """Have the pump run soon; from any thread, cheap when it is about to run anyway."""
        if not self._woken:
            self._woken = True
            self._io.call(self._pump)

    def start(self) -> None:
        """Begin to tick."""
        self._ticker = self._io.loop.call_later(TICK, self._tick)

    async def flush(self) -> None:
        """Seal everything now; return when all that send() has taken so far is settled."""
        self._urgent += 1
        try:
            self._pump()
            await self._settler.wait_for({b for b in self._open_batches() if b.user_records})
        finally:
            self._urgent -= 1

    def hurry(self) -> None:
        """From now on nothing lingers."""
        self._urgent += 1

    def unsettled(self) -> int:
        """How many records send() has taken that are not settled."""
        self._collect(time.monotonic(), seal_all=True)
        return sum(batch.user_records for batch in self._open_batches())

    def give_up(self, error: TallymarkError) -> None:
        """Settle everything as failed, or in doubt where bytes have left."""
        self._collect(time.monotonic(), seal_all=True)
        for lane in self._active:
            for batch in lane.pipeline.abandon():
                self._settler.failed(batch, error, batch.ambiguous)

    async def stop(self) -> None:
        """Send and tick no more."""
        self._stopped = True
        for handle in (self._timer, self._ticker):
            if handle is not None:
                handle.cancel()
        await self._errands.close()

    def _open_batches(self) -> list[ProducerBatch]:
        return [batch for lane in self._active for batch in lane.pipeline.unsettled()]

    # --- the pump ---------------------------------------------------------------------------

    def _pump(self, *_: Any) -> None:
        self._woken = False
        if self._stopped:
            return
        now = time.monotonic()
        self._collect(now, seal_all=bool(self._urgent or self.accumulator.budget.waiting))
        self._expire(now)
        self._send_all(now)
        self._rest(now)

    def _collect(self, now: float, seal_all: bool) -> None:
        """Take over what is sealed, and seal what has lingered long enough."""
        news = self.accumulator.news
        while news:
            self._active[news.popleft()] = None
        linger = self.accumulator.rules.linger
        for lane in self._active:
            filling = lane.open
            if filling is not None and (seal_all or filling.created + linger <= now):
                with lane.lock:
                    lane.seal()
            while lane.sealed:
                batch = lane.sealed.popleft()
                if batch.count:
                    self._settler.announce(batch)
                    lane.pipeline.add(batch)
                else:  # its only record did not encode
                    self.accumulator.budget.release(batch.reserved)

    def _expire(self, now: float) -> None:
        timeout = self.accumulator.rules.delivery_timeout
        for lane in self._active:
            for batch in lane.pipeline.expired(now):
                last = f"; last problem: {self._errands.problem}" if self._errands.problem else ""
                error = TimedOutError(f"{batch.describe()} not delivered in {timeout:g} s{last}")
                self._settler.failed(batch, error, batch.ambiguous)

    def _send_all(self, now: float) -> None:
        by_leader: dict[Address, list[Lane]] = {}
        for lane in self._active:
            pipeline = lane.pipeline
            if not pipeline.pending:
                continue
            if pipeline.next(now, self._errands.ids.newest) is None:
                if pipeline.needs_identity and self._errands.ids.newest == pipeline.identity:
                    self._want_identity(lane)
                continue
            address = self._cluster.leader_address(lane.topic, lane.partition)
            if address is None:
                self._errands.want_metadata()
            else:
                by_leader.setdefault(address, []).append(lane)
        for address, lanes in by_leader.items():
            self._send_to(address, lanes, now)

    def _send_to(self, address: Address, lanes: list[Lane], now: float) -> None:
        """Requests to one broker, until it has enough in flight or nothing more may go."""
        stream = self._cluster.connections.ready(address)
        if stream is None:
            again_at = self._errands.want_connection(address, now)
            if again_at is not None:
                self._wake_at(again_at)
            return
        while self._in_flight.get(address, 0) < self._rules.max_in_flight:
            if not stream.writable:
                self._wake_at(now + _UNWRITABLE_PAUSE)
                return
            parcels = self._fill_request(lanes, now)
            if not parcels or not self._submit(address, stream, parcels):
                return

    def _fill_request(self, lanes: list[Lane], now: float) -> list[Parcel]:
        parcels: list[Parcel] = []
        room = MAX_REQUEST_BYTES
        for lane in lanes:
            batch = lane.pipeline.next(now, self._errands.ids.newest)
            if batch is None or (parcels and batch.size > room):
                continue
            lane.pipeline.sent(batch)
            parcels.append((lane, batch))
            room -= batch.size
        return parcels

    def _submit(self, address: Address, stream: Stream, parcels: list[Parcel]) -> bool:
        """Hand one request over; False when nothing more may be sent to this broker now."""
        rules = self._rules
        try:
            version = produce_version(stream, rules.compression)
            request = build_request(
                parcels,
                rules.acks,
                rules.request_timeout,
                rules.compression,
                self._cluster.metadata,
            )
            if rules.acks == 0:
                stream.post(request, version)
                self._acknowledge_unseen(parcels)
                return True
            future = stream.submit(request, version, timeout=rules.request_timeout)
        except (KafkaError, LocalProtocolError) as error:
            self._not_sent(parcels, error)
            return False
        self._in_flight[address] = self._in_flight.get(address, 0) + 1
        future.add_done_callback(lambda done: self._answered(address, parcels, done))
        return True

    def _rest(self, now: float) -> None:
        """Forget the partitions that are done, and set the timer for the next thing to do."""
        next_at: float | None = None
        linger = self.accumulator.rules.linger
        for lane in list(self._active):
            filling = lane.open
            if filling is not None:
                at: float | None = filling.created + linger
            elif lane.pipeline.pending and lane.pipeline.retry_at > now:
                at = lane.pipeline.retry_at
            else:
                at = None
                if lane.pipeline.idle:
                    self._dismiss(lane)
            if at is not None and (next_at is None or at < next_at):
                next_at = at
        if next_at is not None:
            self._wake_at(next_at)

    def _dismiss(self, lane: Lane) -> None:
        with lane.lock:
            if lane.open is None and not lane.sealed:
                lane.listed = False
                del self._active[lane]

    def _wake_at(self, at: float) -> None:
        """Run the pump at ``at`` at the latest."""
        if self._timer is not None:
            if not self._timer.cancelled() and time.monotonic() < self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._io.loop.call_at(at, self._pump)

    # --- answers ----------------------------------------------------------------------------

    def _answered(
        self, address: Address, parcels: list[Parcel], done: asyncio.Future[ProduceResponse]
    ) -> None:
        self._in_flight[address] -= 1
        error = done.exception()
        if error is not None:
            for lane, batch in parcels:
                self._refused(lane, batch, _as_ours(error))
        else:
            for answer in read_response(parcels, done.result(), self._cluster.metadata):
                if answer.error is not None:
                    self._refused(answer.lane, answer.batch, answer.error)
                    continue
                self._errands.problem = None
                answer.lane.pipeline.acknowledged(answer.batch)
                if not answer.batch.settled:
                    self._settler.acknowledged(
                        answer.batch, answer.base_offset, answer.append_time_ms
                    )
        self._pump()

    def _refused(self, lane: Lane, batch: ProducerBatch, error: TallymarkError) -> None:
        self._errands.problem = error
        retry_at = time.monotonic() + self._rules.retry_backoff
        verdict = lane.pipeline.refused(batch, error, retry_at)
        if verdict is Verdict.RETRY:
            log.info("%s will be sent again: %s", batch.describe(), error)
        elif verdict is not Verdict.OVER:
            self._settler.failed(batch, error, verdict is Verdict.IN_DOUBT)
        if isinstance(error, KafkaError) and error.stale_metadata:
            self._errands.want_metadata()

    def _not_sent(self, parcels: list[Parcel], error: TallymarkError) -> None:
        """Nothing left: the connection has just died (try again), or it cannot be said."""
        for lane, batch in parcels:
            if isinstance(error, KafkaError) and error.retriable:
                lane.pipeline.unsent(batch)
            else:
                self._refused(lane, batch, error)

    def _acknowledge_unseen(self, parcels: list[Parcel]) -> None:
        for lane, batch in parcels:
            lane.pipeline.acknowledged(batch)
            self._settler.acknowledged(batch, -1, -1)

    def _want_identity(self, lane: Lane) -> None:
        error = self._errands.ids.error
        if error is None or lane.pipeline.in_flight:
            self._errands.ids.request()
            return
        for batch in lane.pipeline.abandon():
            self._settler.failed(batch, error, batch.ambiguous)
        self._errands.ids.error = None

    # --- time -------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._ticker = self._io.loop.call_later(TICK, self._tick)
        now_ms = time.time_ns() // 1_000_000  # before looking: see ProducerInterceptor.on_tick
        self._pump()
        self._cluster.refresh_if_old()
        self.on_tick()
        self._chain.on_tick(now_ms, self._oldest_pending())

    def _oldest_pending(self) -> int | None:
        oldest: int | None = None
        for lane in self._active:
            with lane.lock:
                waiting = [*lane.sealed, lane.open] if lane.open else list(lane.sealed)
            for batch in (*waiting, *lane.pipeline.unsettled()):
                if batch.stamped and (oldest is None or batch.oldest < oldest):
                    oldest = batch.oldest
        return oldest if oldest is not None and oldest < 2**63 else None


def _as_ours(error: BaseException) -> TallymarkError:
    if isinstance(error, TallymarkError):
        return error
    return KafkaError(CODES["NETWORK_EXCEPTION"], f"the request failed: {error!r}")
