"""Sends ready batches to the leaders of their partitions: the sending half of a producer.

One function, :meth:`BatchSender._pump`, runs in the I/O thread whenever something may have become
possible, and never waits. :class:`~tallymark.mirror.target.queue.TargetQueue` keeps the order of a
partition. Temporary errors are retried for ever. A target that answers and keeps refusing is given
up after :data:`PATIENCE`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Final

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.errors import (
    CODES,
    CorruptRecordError,
    KafkaError,
    LocalProtocolError,
    TallymarkError,
    TimedOutError,
)
from tallymark.mirror.corruption import UnfitBatchError, is_unfit
from tallymark.mirror.target.batch_request import QueuedBatch, read_response, request_writer
from tallymark.mirror.target.producer_ids import Announce, ProducerIdPool
from tallymark.mirror.target.queue import IN_FLIGHT, TargetQueue
from tallymark.mirror.target.ready_batch import ReadyBatch
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import ProduceResponse
from tallymark.protocol.wire.produce_client import Appended, read_produced

PATIENCE: Final = 30.0
"""Seconds."""
BACKOFF: Final = 0.1
MAX_REQUEST_BYTES: Final = 1024 * 1024
BUFFER_BYTES: Final = 32 * 1024 * 1024
"""How much may be under way before :meth:`BatchSender.wait_for_room` waits."""
_TICK: Final = 1.0
_UNWRITABLE_PAUSE: Final = 0.005
_REFUSALS: Final = frozenset(
    CODES[name] for name in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "CORRUPT_MESSAGE")
)
"""Retriable, but returned by a broker that works: a retry helps only while the broker does not know
the present metadata."""
_log: Final = logging.getLogger("mirror")


class BatchSender:
    """See the module's text. Any thread may call :meth:`wait_for_room`, :meth:`send`, ``close``."""

    def __init__(self, io: IoThread, cluster: Cluster, announce: Announce) -> None:
        self._io = io
        self._cluster = cluster
        self._background = BackgroundRefresh(cluster, BACKOFF, self._pump)
        self._ids = ProducerIdPool(cluster, BACKOFF, announce, self._pump)
        self._submitted: deque[ReadyBatch] = deque()
        self._queues: dict[tuple[str, int], TargetQueue] = {}
        self._active: dict[TargetQueue, None] = {}
        self._in_flight: dict[Address, int] = {}
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._learned: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False
        self._stopped = False
        self._room = threading.Condition()
        self._used = 0
        io.call(self._tick)

    # --- any thread -------------------------------------------------------------------------

    def wait_for_room(self, seconds: float) -> None:
        """Return when there is room for more. TimedOutError: not within ``seconds``."""
        with self._room:
            if not self._room.wait_for(lambda: self._used < BUFFER_BYTES, seconds):
                raise self.not_taken()

    def not_taken(self) -> TimedOutError:
        """The error to raise when the target has not answered for long."""
        last = f": {self._background.problem}" if self._background.problem else ""
        return TimedOutError(f"the target does not take what is sent{last}")

    def send(self, batch: ReadyBatch) -> None:
        """Send a batch behind all others of its partition; ``batch.on_settled`` is called at its
        end."""
        with self._room:
            self._used += batch.size
        self._submitted.append(batch)
        if not self._woken:
            self._woken = True
            self._io.call(self._pump)

    async def close(self) -> None:
        """Send no more. Batches that are not settled never will be. Call it in the I/O thread."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        learning = list(self._learning.values())
        for task in learning:
            task.cancel()
        await asyncio.gather(*learning, return_exceptions=True)
        await self._ids.close()
        await self._background.close()

    # --- the pump ---------------------------------------------------------------------------

    def _pump(self, *_: Any) -> None:
        self._woken = False
        if self._stopped:
            return
        self._collect()
        now = time.monotonic()
        by_leader: dict[Address, list[TargetQueue]] = {}
        for queue in list(self._active):
            if not queue.feed():
                if queue.idle or queue.failed:
                    del self._active[queue]
            elif self._may_send(queue, now):
                address = self._cluster.leader_address(queue.topic, queue.partition)
                if address is not None:
                    by_leader.setdefault(address, []).append(queue)
                else:
                    self._no_leader(queue, now)
        for address, queues in by_leader.items():
            self._send_to(address, queues, now)
        waits = [queue.pipeline.retry_at for queue in self._active if queue.pipeline.pending]
        due = [at for at in waits if at > now]
        if due:
            self._wake_at(min(due))

    def _collect(self) -> None:
        submitted = self._submitted
        while submitted:
            batch = submitted.popleft()
            place = (batch.topic, batch.partition)
            queue = self._queues.get(place)
            if queue is None:
                queue = self._queues[place] = TargetQueue(*place)
            queue.waiting.append(batch)
            self._active[queue] = None

    def _may_send(self, queue: TargetQueue, now: float) -> bool:
        newest = self._ids.newest(queue.origin)
        if queue.pipeline.next(now, newest) is not None:
            return True
        if queue.pipeline.needs_identity and newest == queue.pipeline.identity:
            if self._ids.error is not None:
                self._give_up(queue, self._ids.error)
            else:
                self._ids.want(queue.origin)
        return False

    def _no_leader(self, queue: TargetQueue, now: float) -> None:
        code = self._cluster.metadata.error(queue.topic)
        if code in _REFUSALS and self._is_lasting(queue, now):
            self._give_up(queue, KafkaError(code, f"{queue.topic}-{queue.partition}"))
        else:
            self._learn(queue.topic)
            queue.pipeline.retry_at = now + BACKOFF

    def _learn(self, topic: str) -> None:
        """Request the leaders of the topic's partitions; later refreshes include the topic."""
        if topic in self._learned:
            self._background.want_metadata()
        elif topic not in self._learning:
            task = supervised.start(self._cluster.refresh([topic]), "learning a topic")
            self._learning[topic] = task
            task.add_done_callback(lambda done: self._has_learned(topic, done))

    def _has_learned(self, topic: str, done: asyncio.Task[None]) -> None:
        del self._learning[topic]
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._learned.add(topic)
        else:
            self._background.problem = _as_ours(error)
        self._pump()

    def _send_to(self, address: Address, queues: list[TargetQueue], now: float) -> None:
        stream = self._cluster.connections.ready(address)
        if stream is None:
            again_at = self._background.want_connection(address, now)
            if again_at is not None:
                self._wake_at(again_at)
            return
        while self._in_flight.get(address, 0) < IN_FLIGHT:
            if not stream.writable:
                self._wake_at(now + _UNWRITABLE_PAUSE)
                break
            queued = self._fill_request(queues, now)
            if not queued or not self._submit(address, stream, queued):
                break
        stream.push()

    def _fill_request(self, queues: list[TargetQueue], now: float) -> list[QueuedBatch]:
        queued: list[QueuedBatch] = []
        room = MAX_REQUEST_BYTES
        for queue in queues:
            if not queue.feed():
                continue
            batch = queue.pipeline.next(now, self._ids.newest(queue.origin))
            if not isinstance(batch, ReadyBatch) or (queued and batch.size > room):
                continue
            queue.pipeline.sent(batch)
            queued.append((queue, batch))
            room -= batch.size
        return queued

    def _submit(
        self, address: Address, stream: BrokerConnection, queued: list[QueuedBatch]
    ) -> bool:
        try:
            version, write = request_writer(stream, queued, self._cluster)
            stream.exchange(
                write,
                partial(read_produced, version=version),
                partial(self._answered, address, queued),
                self._cluster.request_timeout,
                "Produce",
            )
        except (KafkaError, LocalProtocolError) as error:
            for queue, batch in queued:
                if isinstance(error, KafkaError) and error.retriable:
                    queue.pipeline.unsent(batch)
                else:
                    self._refused(queue, batch, error)
            return False
        self._in_flight[address] = self._in_flight.get(address, 0) + 1
        return True

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            if not self._timer.cancelled() and time.monotonic() < self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._io.loop.call_at(at, self._pump)

    def _tick(self) -> None:
        """Called periodically, in case that nothing else wakes us."""
        if not self._stopped:
            self._io.loop.call_later(_TICK, self._tick)
            self._cluster.refresh_if_old()
            if self._active:
                self._pump()

    # --- answers ----------------------------------------------------------------------------

    def _answered(
        self,
        address: Address,
        queued: list[QueuedBatch],
        response: list[Appended] | ProduceResponse,
        error: TallymarkError | None,
    ) -> None:
        self._in_flight[address] -= 1
        if error is not None:
            for queue, batch in queued:
                self._refused(queue, batch, error)
        else:
            for queue, batch, problem, offset in read_response(queued, response):
                if problem is not None:
                    self._refused(queue, batch, problem)
                else:
                    self._background.problem = queue.refused_at = None
                    queue.pipeline.acknowledged(batch)
                    self._settle(batch, None, offset)
        if not self._woken:  # once for all answers that came together
            self._woken = True
            self._io.loop.call_soon(self._pump)

    def _refused(self, queue: TargetQueue, batch: ReadyBatch, error: TallymarkError) -> None:
        now = time.monotonic()
        unfit = is_unfit(batch.batch, error)
        if unfit:  # whatever the error code: the next batch may be sent, this one never
            if not isinstance(error, KafkaError) or error.code != CODES["INVALID_RECORD"]:
                error = KafkaError(CODES["INVALID_RECORD"], str(error))
        else:
            self._background.problem = error
        code = error.code if isinstance(error, KafkaError) else None
        verdict = queue.pipeline.refused(batch, error, now + BACKOFF)
        if isinstance(error, KafkaError) and error.stale_metadata:
            self._background.want_metadata()
        if verdict is Verdict.RETRY:
            if code in _REFUSALS and self._is_lasting(queue, now):
                self._give_up(queue, error)
            return
        if verdict is Verdict.SPLIT:
            try:
                size = queue.split(batch)
            except CorruptRecordError as corrupt:
                error = corrupt
            else:
                _log.info("%s-%d: sent in two halves: %s", queue.topic, queue.partition, error)
                with self._room:
                    self._used += size - batch.size
                return
        queue.failed = not unfit
        self._settle(batch, UnfitBatchError(str(error)) if unfit else error, -1)

    def _is_lasting(self, queue: TargetQueue, now: float) -> bool:
        if queue.refused_at is None:
            queue.refused_at = now
        return now - queue.refused_at >= PATIENCE

    def _give_up(self, queue: TargetQueue, error: TallymarkError) -> None:
        """The first batch is refused for good, so all batches of the queue fail: none may overtake
        it."""
        if not queue.failed:
            queue.failed = True
            for batch in queue.abandon():
                self._settle(batch, error, -1)

    def _settle(self, batch: ReadyBatch, error: Exception | None, offset: int) -> None:
        if not batch.settled:
            batch.settled = True
            with self._room:
                self._used -= batch.size
                self._room.notify_all()
            batch.on_settled(error, offset)


def _as_ours(error: BaseException) -> TallymarkError:
    if isinstance(error, TallymarkError):
        return error
    return KafkaError(CODES["NETWORK_EXCEPTION"], f"the request failed: {error!r}")
