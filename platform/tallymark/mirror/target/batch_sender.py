"""Sends ready batches to the leaders of their partitions, as a producer sends its own.

One function, :meth:`BatchSender._pump`, runs in the I/O thread whenever something may have become
possible, and waits for nothing. :class:`~tallymark.mirror.target.queue.TargetQueue` keeps the order
of a partition, the producer's :class:`~tallymark.client.producing.sending.dispatcher.Dispatcher`
writes the requests. Temporary errors are retried for ever. A partition whose leader answers and
keeps refusing is given up after :data:`PATIENCE`, until :meth:`BatchSender.reopen`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from tallymark.client.core import supervised
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.client.producing.batches.pipeline import Verdict
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.dispatcher import Dispatcher, SendRules
from tallymark.client.producing.sending.produce_response import Entry
from tallymark.errors import (
    CODES,
    CorruptRecordError,
    KafkaError,
    TallymarkError,
    TimedOutError,
)
from tallymark.mirror.corruption import UnfitBatchError, is_unfit
from tallymark.mirror.target.producer_ids import Announce, ProducerIdPool
from tallymark.mirror.target.queue import IN_FLIGHT, TargetQueue
from tallymark.mirror.target.ready_batch import ReadyBatch

PATIENCE: Final = 30.0
"""Seconds."""
BACKOFF: Final = 0.1
NAMED_UNTIL: Final = 12
"""Later versions of Produce name topics by id; a topic made anew meanwhile is found by its name."""
BUFFER_BYTES: Final = 32 * 1024 * 1024
"""How much may be under way before :meth:`BatchSender.wait_for_room` waits."""
_TICK: Final = 1.0
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
        rules = SendRules(
            acks=-1,
            compression="",  # batches are compressed already
            compression_level=None,
            request_timeout=cluster.request_timeout,
            retry_backoff=BACKOFF,
            max_in_flight=IN_FLIGHT,
            highest_version=NAMED_UNTIL,
        )
        self._dispatcher = Dispatcher(cluster, rules, self._background, self, self._pump)
        self._submitted: deque[ReadyBatch] = deque()
        self._queues: dict[tuple[str, int], TargetQueue] = {}
        self._active: dict[TargetQueue, None] = {}
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._learned: set[str] = set()
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
        self._wake()

    def reopen(self) -> None:
        """Send again to the partitions that have refused a batch for good."""
        self._io.call(self._reopen)

    async def close(self) -> None:
        """Send no more. Batches that are not settled never will be. Call it in the I/O thread."""
        self._stopped = True
        self._dispatcher.stop()
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
        sendable: list[TargetQueue] = []
        for queue in list(self._active):
            if not queue.feed():
                if queue.idle or queue.failed is not None:
                    del self._active[queue]
            elif self._may_send(queue, now):
                sendable.append(queue)
        self._dispatcher.dispatch(sendable, now)
        waits = [queue.pipeline.retry_at for queue in self._active if queue.pipeline.pending]
        due = [at for at in waits if at > now]
        if due:
            self._dispatcher.pump_at(min(due))

    def _wake(self) -> None:
        """Have the pump run soon, once for all that asks for it."""
        if not self._woken:
            self._woken = True
            self._io.call(self._pump)

    def _collect(self) -> None:
        while self._submitted:
            batch = self._submitted.popleft()
            place = (batch.topic, batch.partition)
            queue = self._queues.get(place)
            if queue is None:
                queue = self._queues[place] = TargetQueue(*place)
            if queue.failed is not None:  # none may overtake the one that was refused
                self._settle(batch, queue.failed, -1)
                continue
            queue.waiting.append(batch)
            self._active[queue] = None

    def _reopen(self) -> None:
        for queue in self._queues.values():
            queue.failed = queue.refused_at = None

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

    def _tick(self) -> None:
        """Called periodically, in case that nothing else wakes us."""
        if not self._stopped:
            self._io.loop.call_later(_TICK, self._tick)
            self._cluster.refresh_if_old()
            if self._active:
                self._pump()

    # --- of the dispatcher ------------------------------------------------------------------

    def next_batch(self, queue: TargetQueue, now: float) -> ReadyBatch | None:
        """See :class:`~tallymark.client.producing.sending.dispatcher.BatchOwner`; so with the
        others."""
        if not queue.feed():
            return None
        batch = queue.pipeline.next(now, self._ids.newest(queue.origin))
        return batch if isinstance(batch, ReadyBatch) else None

    def no_leader(self, queue: TargetQueue, now: float) -> None:
        code = self._cluster.metadata.error(queue.topic)
        if code in _REFUSALS and self._is_lasting(queue, now):
            self._give_up(queue, KafkaError(code, f"{queue.topic}-{queue.partition}"))
        else:
            self._learn(queue.topic)
            queue.pipeline.retry_at = now + BACKOFF

    def uses_zstd(self, entries: Sequence[Entry[TargetQueue, ReadyBatch]]) -> bool:
        return any(batch.codec == "zstd" for _, batch in entries)

    def sending(self, entries: Sequence[Entry[TargetQueue, ReadyBatch]]) -> None:
        """Nothing observes single requests."""

    def sent(self, entries: Sequence[Entry[TargetQueue, ReadyBatch]], size: int) -> None:
        """As :meth:`sending`."""

    def answered(self, seconds: float | None) -> None:
        if seconds is None:
            self._wake()  # a connection that has died calls no after_answers

    def acknowledged(
        self, queue: TargetQueue, batch: ReadyBatch, base_offset: int, append_time_ms: int
    ) -> None:
        self._background.problem = queue.refused_at = None
        queue.pipeline.acknowledged(batch)
        self._settle(batch, None, base_offset)

    def refused(
        self, queue: TargetQueue, batch: ReadyBatch, error: TallymarkError, moved: bool
    ) -> None:
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
        self._settle(batch, UnfitBatchError(str(error)) if unfit else error, -1)
        if not unfit:
            self._give_up(queue, error)

    # --- ends of batches --------------------------------------------------------------------

    def _is_lasting(self, queue: TargetQueue, now: float) -> bool:
        if queue.refused_at is None:
            queue.refused_at = now
        return now - queue.refused_at >= PATIENCE

    def _give_up(self, queue: TargetQueue, error: TallymarkError) -> None:
        """The first batch is refused for good, so all batches of the queue fail: none may overtake
        it."""
        if queue.failed is None:
            queue.failed = error
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
