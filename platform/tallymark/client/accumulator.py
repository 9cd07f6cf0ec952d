"""Where records become batches: in the thread that calls send(), under the partition's lock.

The record is encoded, given its timestamp and its stamp's sequence at once, so that sequences and
timestamps of a partition grow together and a batch is one range of sequences.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.batch import ProducerBatch
from tallymark.client.budget import MemoryBudget
from tallymark.client.delivery import Delivery, OnDelivery
from tallymark.client.lane import Lane
from tallymark.client.stamps import STAMP_HEADER, uvarint
from tallymark.errors import CODES, ClosedError, KafkaError, TimedOutError
from tallymark.protocol.records import Header
from tallymark.protocol.schema import Buffer

_RECORD_OVERHEAD: Final = 32
"""At least what a record needs besides its key, value and headers."""
_BATCH_OVERHEAD: Final = 61


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Sizes in bytes, times in seconds."""

    batch_size: int
    linger: float
    delivery_timeout: float


class Accumulator:
    """Open batches of all partitions.

    ``wake`` tells the I/O thread that there is something to do; ``news`` holds the partitions it
    has not been told of.
    """

    def __init__(self, rules: BatchRules, budget: MemoryBudget, wake: Callable[[], None]) -> None:
        self.rules = rules
        self.budget = budget
        self.closed = False
        self.news: deque[Lane] = deque()
        self._wake = wake

    def append(
        self,
        lane: Lane,
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

        Waits for room in the buffer for at most ``block`` seconds, then raises TimedOutError; None
        takes the room without asking. ``timestamp`` None: now. ``report``: an interceptor's own
        record, taken after close() too. KafkaError MESSAGE_TOO_LARGE for what no buffer can hold.
        """
        payload = (len(key) if key else 0) + (len(value) if value else 0)
        need = payload + _RECORD_OVERHEAD
        if stamped:
            need += lane.stamp_size
        for name, content in headers:
            need += 8 + 4 * len(name) + (len(content) if content else 0)
        reserved = 0
        while True:
            with lane.lock:
                batch = lane.open
                if (
                    batch is None
                    or batch.size + need > self.rules.batch_size
                    or batch.stamped is not stamped
                    or self.closed
                ):
                    batch = self._other_batch(lane, need, stamped, reserved, report)
                if batch is not None:
                    delivery = _add(lane, batch, key, value, headers, timestamp, on_delivery)
                    batch.payload += payload
                    batch.reports += report
                    if batch.size + need > self.rules.batch_size:
                        lane.seal()  # another one like it would not fit
                        self._wake()
                    return delivery
            reserved = self._wait_for_room(lane.topic, need, block)

    def _other_batch(
        self, lane: Lane, need: int, stamped: bool, reserved: int, report: bool
    ) -> ProducerBatch | None:
        """A batch that takes the record, when the open one was not certain to. None: the buffer
        has no room for it. ``reserved`` is room the caller has got already."""
        if self.closed and not report:
            self.budget.release(reserved)
            raise ClosedError("the producer has been closed")
        batch = lane.open
        if batch is not None:
            if batch.stamped is stamped and batch.size + need <= self.rules.batch_size:
                self.budget.release(reserved)
                return batch
            lane.seal()
            self._wake()
        if not reserved:
            size = self._room_for(need)
            reserved = size if self.budget.try_reserve(size) else 0
        return self._begin(lane, stamped, reserved) if reserved else None

    def _begin(self, lane: Lane, stamped: bool, reserved: int) -> ProducerBatch:
        # Listed before the clock is read for the record: a tick that does not see the partition
        # read its own clock earlier (ProducerInterceptor.on_tick relies on it).
        if not lane.listed:
            lane.listed = True
            self.news.append(lane)
        now = time.monotonic()
        batch = ProducerBatch(
            lane.topic, lane.partition, stamped, now, now + self.rules.delivery_timeout
        )
        batch.reserved = reserved
        batch.first_stamp = lane.next_stamp if stamped else -1
        lane.open = batch
        self._wake()
        return batch

    def _room_for(self, need: int) -> int:
        return max(self.rules.batch_size, _BATCH_OVERHEAD + need)

    def _wait_for_room(self, topic: str, need: int, block: float | None) -> int:
        size = self._room_for(need)
        if block is None:
            self.budget.force_reserve(size)
            return size
        if size > self.budget.limit:
            raise KafkaError(
                CODES["MESSAGE_TOO_LARGE"],
                f"a record of about {need} bytes for {topic} exceeds the producer's buffer "
                f"(buffer_memory={self.budget.limit})",
            )
        self._wake()  # somebody waits: batches leave without lingering
        if not self.budget.reserve(size, time.monotonic() + block):
            raise TimedOutError(
                f"send to {topic}: no room in the producer's buffer within {block:g} s "
                f"(max_block_ms): {self.budget.used} of {self.budget.limit} bytes (buffer_memory) "
                "wait for brokers"
            )
        return size


def _add(
    lane: Lane,
    batch: ProducerBatch,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    timestamp: int | None,
    on_delivery: OnDelivery | None,
) -> Delivery:
    """Write the record, with its time and its sequence of this very moment."""
    if timestamp is None:
        timestamp = time.time_ns() // 1_000_000
    if batch.stamped:
        sequence = lane.next_stamp
        stamp = lane.stamp_prefix + uvarint(sequence) + lane.stamp_suffix
        batch.size = batch.builder.append(key, value, (*headers, (STAMP_HEADER, stamp)), timestamp)
        lane.next_stamp = sequence + 1
    else:
        batch.size = batch.builder.append(key, value, headers, timestamp)
    batch.timestamps.append(timestamp)
    if timestamp < batch.oldest:
        batch.oldest = timestamp
    delivery = Delivery()
    if on_delivery is not None:
        batch.callbacks[len(batch.deliveries)] = on_delivery
    batch.deliveries.append(delivery)
    return delivery
