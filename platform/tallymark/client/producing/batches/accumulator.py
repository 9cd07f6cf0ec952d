"""Where records become batches: in the thread that calls send(), under the partition's lock.

A record is only put into its batch's columns; its time is read at once and its stamp's sequence is
its place, so sequences and timestamps of a partition grow together and a batch is one range of
sequences. Encoding is left to when the batch leaves (:mod:`.batch`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.producing.batches.batch import NS, ProducerBatch
from tallymark.client.producing.batches.buffer_memory import BufferMemory
from tallymark.client.producing.batches.handover import Handover
from tallymark.client.producing.batches.many_records import ManyRecords, put
from tallymark.client.producing.batches.partition_queue import (
    RECORD_OVERHEAD,
    PartitionQueue,
    TopicQueues,
)
from tallymark.client.producing.delivery import Delivery, OnDelivery, ProduceResult
from tallymark.errors import (
    CODES,
    BufferFullError,
    ClientFailedError,
    ClosedError,
    KafkaError,
    TimedOutError,
)
from tallymark.protocol.records.batch import Header
from tallymark.protocol.records.writer import encode_headers
from tallymark.protocol.schema import Buffer

_BATCH_OVERHEAD: Final = 61
_GROWS_TO: Final = 128 * 1024
"""Bytes of a batch that a larger one makes hardly later, where ``batch_size`` is less ..."""
_GROWS_FROM: Final = 4096
"""... but not where it is less than this: then small batches are wanted."""
_QUICK: Final = 0.001
"""Seconds: a batch that was filled in less is filled as quickly once more."""
NO_WAIT: Final = -1.0
"""As ``block``: raise BufferFullError rather than wait."""
FORCE: Final = None
"""As ``block``: take the room without asking."""
_clock = time.time_ns
_monotonic = time.monotonic


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Sizes in bytes, times in seconds; ``most_records`` of a batch."""

    batch_size: int
    linger: float
    delivery_timeout: float
    most_records: int = 2**31 - 1


class Accumulator:
    """Open batches of all partitions. ``handover`` is where the I/O thread learns of them."""

    def __init__(self, rules: BatchRules, buffer: BufferMemory, handover: Handover) -> None:
        self.rules = rules
        self.buffer = buffer
        self.handover = handover
        self.closed = False
        self.failure: ClientFailedError | None = None
        """Why it is closed, when the application did not close it."""
        self._last = rules.most_records - 1
        self._grows = rules.batch_size >= _GROWS_FROM
        self._quick = min(rules.linger, _QUICK)

    def append_value(self, topic: TopicQueues, value: bytes) -> Delivery | None:
        """The quick way for a value alone, where there is room at once. None: take the other
        way."""
        queue = topic.sticky
        need = len(value) + queue.need
        lock = queue.lock
        lock.acquire()  # "with" takes longer, and this is the hottest line there is
        try:
            batch = queue.open
            if batch is None:
                batch = self._begin_plain(queue, need)
            if batch is None or not batch.plain:
                return None
            room = batch.room - need
            if room < 0:
                return None
            values = batch.values
            place = len(values)
            values.append(value)
            batch.times.append(_clock())
            batch.room = room
            delivery = Delivery(batch.result, place)
            if place != self._last and room >= need:
                return delivery  # most calls end here
            if not self._seal_if_full(queue, batch, need):
                return delivery
        finally:
            lock.release()
        self.handover.sealed(queue, batch)
        return delivery

    def append(
        self,
        queue: PartitionQueue,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        timestamp: int | None,
        *,
        stamped: bool,
        on_delivery: OnDelivery | None = None,
        block: float | None = None,
        report: bool = False,
    ) -> Delivery:
        """Add a record to its partition's open batch, beginning a new one where needed.

        Waits for room in the buffer for at most ``block`` seconds, then raises TimedOutError;
        NO_WAIT: raises BufferFullError at once; FORCE takes the room without asking.
        ``timestamp`` (ms) None: now. ``report``: an interceptor's own record, taken after close()
        too. KafkaError MESSAGE_TOO_LARGE for what no buffer can hold.
        """
        need = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if stamped:
            need += queue.stamp_size
        if timestamp is not None:
            need += 6  # it may be far from its neighbours
        encoded = None
        if headers:
            encoded = encode_headers(headers, stamped)
            need += len(encoded)
        reserved = 0
        while True:
            with queue.lock:
                batch = self._batch_for(queue, need, stamped, reserved, report)
                if batch is not None:
                    place = len(batch.times)
                    put(batch, key, value, encoded)
                    batch.times.append(_clock() if timestamp is None else timestamp * NS)
                    batch.room -= need
                    batch.reports += report
                    if on_delivery is not None:
                        batch.callbacks[place] = on_delivery
                    enough = place < self._last and batch.room >= need  # most calls end here
                    full = not enough and self._seal_if_full(queue, batch, need)
                    break
            reserved = self.wait_for_room(queue.topic, need, block)
        if full:
            self.handover.sealed(queue, batch, may_wait=block is not None and block > 0)
        return Delivery(batch.result, place)

    def append_some(
        self,
        queue: PartitionQueue,
        records: ManyRecords,
        start: int,
        stamped: bool,
        block: float | None,
    ) -> tuple[ProduceResult, int, int]:
        """Add as many of ``records`` from ``start`` on as one batch takes, at least one: their
        result, the index of the first in it, and how many. Errors and ``block`` as in
        :meth:`append`."""
        need = records.need(start, queue, stamped)
        reserved = 0
        while True:
            with queue.lock:
                batch = self._batch_for(queue, need, stamped, reserved)
                if batch is not None:
                    place = batch.count
                    most = min(self._last + 1 - place, len(records) - start)
                    taken, size = records.fitting(start, most, batch.room, queue, stamped)
                    # All of them are there: a larger batch waits for nothing.
                    while taken < most and self._grow(queue, batch, need, at_hand=True):
                        taken, size = records.fitting(start, most, batch.room, queue, stamped)
                    records.put(batch, start, taken, _clock)
                    batch.room -= size
                    full = start + taken < len(records)
                    if full:
                        queue.seal()
                    else:
                        full = self._seal_if_full(queue, batch, need, grows=False)
                    break
            reserved = self.wait_for_room(queue.topic, need, block)
        if full:
            self.handover.sealed(queue, batch, may_wait=block is not None and block > 0)
        return batch.result, place, taken

    def _batch_for(
        self, queue: PartitionQueue, need: int, stamped: bool, reserved: int, report: bool = False
    ) -> ProducerBatch | None:
        """The batch that takes a record; None: the buffer has no room for a new one. ``reserved``
        is room that the caller has got already. Hold the queue's lock."""
        if self.closed and not report:
            self.buffer.release(reserved)
            raise self.failure or ClosedError("the producer has been closed")
        batch = queue.open
        if batch is not None:
            alike = batch.stamped is stamped
            if alike and (need <= batch.room or self._grow(queue, batch, need)):
                if reserved:
                    self.buffer.release(reserved)
                return batch
            queue.seal()
            self.handover.sealed(queue, batch, may_wait=False)
        if not reserved:
            size = self._room_for(need)
            reserved = size if self.buffer.try_reserve(size) else 0
        return self._begin(queue, stamped, reserved) if reserved else None

    def _begin_plain(self, queue: PartitionQueue, need: int) -> ProducerBatch | None:
        """A new batch as records of the topic usually have it; None when that takes more than
        doing it. Hold the queue's lock."""
        size = self._room_for(need)
        if self.closed or not self.buffer.try_reserve(size):
            return None
        return self._begin(queue, queue.owner.stamped, size)

    def _begin(self, queue: PartitionQueue, stamped: bool, reserved: int) -> ProducerBatch:
        # Listed before the clock is read for the record: a tick that does not see the partition
        # read its own clock earlier (ProducerInterceptor.on_tick relies on it).
        if not queue.listed:
            self.handover.list_queue(queue)
        now = _monotonic()
        batch = ProducerBatch(
            queue.topic,
            queue.partition,
            queue.stamp() if stamped else None,
            now,
            now + self.rules.delivery_timeout,
            reserved - _BATCH_OVERHEAD,
        )
        batch.plain = stamped is queue.owner.stamped
        batch.reserved = reserved
        queue.open = batch
        self.handover.began(now + self.rules.linger)
        return batch

    def _seal_if_full(
        self, queue: PartitionQueue, batch: ProducerBatch, need: int, *, grows: bool = True
    ) -> bool:
        """Seal the open batch if another record of ``need`` bytes would not fit into it and, where
        it ``grows``, not after growing either; whether it is sealed. Hold the queue's lock, and
        report a sealed batch to the handover after that."""
        if batch.count <= self._last and (
            batch.room >= need or (grows and self._grow(queue, batch, need))
        ):
            return False
        queue.seal()
        return True

    def _grow(
        self, queue: PartitionQueue, batch: ProducerBatch, need: int, *, at_hand: bool = False
    ) -> bool:
        """Double the open batch, for a record of ``need`` bytes, when that makes it hardly later
        and there is memory: since it would wait behind others, what goes in is ``at_hand``, or
        comes very quickly. Hold the queue's lock."""
        if not (queue.grows and self._grows):
            return False
        if not (at_hand or queue.crowded or _monotonic() < batch.created + self._quick):
            return False
        more = min(batch.reserved, _GROWS_TO - batch.reserved)
        if batch.room + more < need or more <= 0 or not self.buffer.try_reserve(more):
            return False
        batch.reserved += more
        batch.room += more
        batch.grown *= 2
        return True

    def _room_for(self, need: int) -> int:
        return max(self.rules.batch_size, _BATCH_OVERHEAD + need)

    def wait_for_room(self, topic: str, need: int, block: float | None) -> int:
        """Reserve room for a batch with a record of ``need`` bytes: how much. Errors and ``block``
        as in :meth:`append`."""
        size = self._room_for(need)
        if block is None:
            self.buffer.force_reserve(size)
            return size
        if size > self.buffer.limit:
            raise KafkaError(
                CODES["MESSAGE_TOO_LARGE"],
                f"a record of about {need} bytes for {topic} exceeds the producer's buffer "
                f"(buffer_memory={self.buffer.limit})",
            )
        self.handover.wake()  # a thread waits: batches leave without lingering
        full = f"{self.buffer.used} of {self.buffer.limit} bytes (buffer_memory) wait for brokers"
        if block == NO_WAIT:
            raise BufferFullError(f"send to {topic}: no room in the producer's buffer: {full}")
        if not self.buffer.reserve(size, time.monotonic() + block):
            full = f"{self.buffer.used} of {self.buffer.limit}"
            raise TimedOutError(
                f"send to {topic}: no room in the producer's buffer within {block:g} s "
                f"(max_block_ms): {full} bytes (buffer_memory) wait for brokers"
            )
        return size
