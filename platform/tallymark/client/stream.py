"""A stream of messages: one bounded queue, filled by the fetcher, emptied by the application.

What was handed out counts as *taken*: its offset is what a commit stores. Batches are queued as
they came and decoded when the application reaches them, so a full queue costs what it holds on
the wire and decoding is done in the thread that asked.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.connector_progress import PartitionProgress
from tallymark.client.message import Message
from tallymark.errors import ClosedError
from tallymark.protocol.records import Batch, Record

QUEUE_BYTES: Final = 4 * 1024 * 1024


class Gate:
    """Whether consumption is allowed. It closes the moment the session is suspended, in whatever
    thread notices; it opens only for someone who knows of every suspension there was."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._suspensions = 0

    def suspend(self) -> None:
        """Close, and let nobody open who has not seen this suspension."""
        with self._lock:
            self._suspensions += 1
            self.is_open = False

    def mark(self) -> int:
        """What :meth:`open` wants to be shown: the number of suspensions so far."""
        with self._lock:
            return self._suspensions

    def close(self) -> None:
        """Close until the next :meth:`open`."""
        self.is_open = False

    def open(self, mark: int) -> None:
        """Open, unless there was a suspension since ``mark`` was taken."""
        with self._lock:
            self.is_open = mark == self._suspensions


@dataclass(slots=True)
class Chunk:
    """What one fetch brought of one partition: messages from ``start`` on; the next one is at
    ``next_offset``. Without batches it only moves the position (a reset)."""

    progress: PartitionProgress
    batches: Sequence[Batch]
    start: int
    next_offset: int
    epoch: int

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(batch.header.size for batch in self.batches)


class Stream:
    """An endless iterator of messages; it blocks while there is none. For one thread.

    After ``shutdown()`` iteration ends. When the connector failed, every call raises its error.
    A partition's messages come in order; those of different partitions are not ordered.
    """

    def __init__(self, gate: Gate, room: threading.Event, queue_bytes: int = QUEUE_BYTES) -> None:
        self._gate = gate
        self._room = room
        self._limit = queue_bytes
        self._changed = threading.Condition()
        self._chunks: deque[Chunk] = deque()
        self._queued = 0
        self._next_batch = 0
        self._records: list[Record] = []
        self._at = 0
        self._ended = False
        self._error: Exception | None = None

    # -- for the application ------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """The next message. StopIteration after ``shutdown()``."""
        with self._changed:
            if self._gate.is_open and not self._ended and self._at + 1 < len(self._records):
                return self._take_within_batch()
        messages = self._wait(1, None)
        if not messages:
            raise StopIteration
        return messages[0]

    def poll(self, timeout: float | None = 0.0, max_messages: int = 500) -> list[Message]:
        """Up to ``max_messages`` that are there; waits up to ``timeout`` seconds (None: for ever)
        for the first one. Empty when none came. ClosedError after ``shutdown()``."""
        messages = self._wait(max_messages, timeout)
        if not messages and self._ended:
            raise ClosedError("the consumer of this stream was shut down")
        return messages

    # -- for the connector --------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the fetcher may add to the queue."""
        return self._queued < self._limit

    def offer(self, chunk: Chunk) -> bool:
        """Queue a chunk; False, and nothing happens, when its partition was given up."""
        with self._changed:
            if not chunk.progress.active:
                return False
            self._chunks.append(chunk)
            self._queued += chunk.size
            self._changed.notify()
            return True

    def revoke(self, items: Sequence[PartitionProgress]) -> None:
        """Drop the queue and accept nothing more of these partitions (all of this stream's).
        What was handed out before is final when this returns."""
        with self._changed:
            for item in items:
                item.active = False
            self._chunks.clear()
            self._queued = 0
            self._forget_batch()

    def wake(self) -> None:
        """The gate opened."""
        with self._changed:
            self._changed.notify()

    def end(self, error: Exception | None = None) -> None:
        """Hand out nothing more; later calls raise ``error``."""
        with self._changed:
            self._ended = True
            self._error = self._error or error
            self._changed.notify_all()

    # -- handing out --------------------------------------------------------------------------

    def _wait(self, limit: int, timeout: float | None) -> list[Message]:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                if self._ended:
                    return []
                messages = self._take(limit) if self._gate.is_open else []
                left = None if deadline is None else deadline - time.monotonic()
                if messages or (left is not None and left <= 0):
                    return messages
                self._changed.wait(left)

    def _take_within_batch(self) -> Message:
        """One message that is not the last of its batch: all that most calls have to do."""
        offset, timestamp, key, value, headers = self._records[self._at]
        self._at += 1
        chunk = self._chunks[0]
        item = chunk.progress
        epoch = chunk.batches[self._next_batch - 1].header.partition_leader_epoch
        item.take(offset, offset + 1, epoch)
        return Message(item.topic, item.partition, offset, timestamp, key, value, headers, epoch)

    def _take(self, limit: int) -> list[Message]:
        messages: list[Message] = []
        while len(messages) < limit and self._stands_on_record(messages):
            chunk = self._chunks[0]
            header = chunk.batches[self._next_batch - 1].header
            epoch = header.partition_leader_epoch
            end = min(len(self._records), self._at + limit - len(messages))
            topic, partition = chunk.progress.topic, chunk.progress.partition
            messages += [
                Message(topic, partition, offset, timestamp, key, value, headers, epoch)
                for offset, timestamp, key, value, headers in self._records[self._at : end]
            ]
            first, last = self._records[self._at].offset, self._records[end - 1].offset
            whole = end == len(self._records)
            self._at = end
            chunk.progress.take(first, header.next_offset if whole else last + 1, epoch)
        self._finish_done()
        return messages

    def _stands_on_record(self, messages: list[Message]) -> bool:
        """:meth:`_advance`, but a batch that does not decode must not swallow the messages taken
        before it: it is met again, and raises, at the next call."""
        try:
            return self._advance()
        except Exception:
            if messages:
                return False
            raise

    def _advance(self) -> bool:
        """Stand on a record that is not handed out yet; False when the queue has none."""
        while self._at == len(self._records):
            self._finish_done()
            if not self._chunks:
                return False
            chunk = self._chunks[0]
            batch = chunk.batches[self._next_batch]
            # Transaction markers are no messages. A fetch answers with whole batches, also when
            # it asked for the middle of one.
            records = [] if batch.header.is_control else batch.records()
            if records and records[0].offset < chunk.start:
                records = [record for record in records if record.offset >= chunk.start]
            self._records, self._at = records, 0
            self._next_batch += 1
        return True

    def _finish_done(self) -> None:
        """Drop the chunks that are handed out to the end; their ends are the positions now."""
        while self._chunks and self._at == len(self._records):
            chunk = self._chunks[0]
            if self._next_batch < len(chunk.batches):
                return
            chunk.progress.move(chunk.next_offset, chunk.epoch)
            self._chunks.popleft()
            full = not self.has_room
            self._queued -= chunk.size
            self._forget_batch()
            if full and self.has_room:
                self._room.set()

    def _forget_batch(self) -> None:
        self._next_batch, self._records, self._at = 0, [], 0
