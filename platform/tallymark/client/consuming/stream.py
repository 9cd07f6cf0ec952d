"""A stream of messages: one bounded queue, filled by the fetcher, emptied by the application.

What was handed out counts as *taken*. What the last call handed out is *in hand*: the application
may be at work on it, until it asks again. Batches are queued as they came and decoded when the
application reaches them, so a full queue costs what it holds on the wire and decoding is done in
the thread that asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeVar

from tallymark.client.consuming.fetch_collector import FetchCollector
from tallymark.client.consuming.hooks import Hooks
from tallymark.client.consuming.stream_queue import Chunk, ChunkQueue, Gate
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.message import Message
from tallymark.client.reading.message_batch import MessageBatch
from tallymark.errors import ClosedError, TimedOutError
from tallymark.protocol.topic_partition import TopicPartition

__all__ = ["QUEUE_BYTES", "Chunk", "Gate", "Stream", "StreamMetrics"]

T = TypeVar("T")
QUEUE_BYTES: Final = 4 * 1024 * 1024
_CLEAR_AGAIN_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class StreamMetrics:
    """Since the stream began: ``messages`` and their ``batches`` that were handed out or begun, and
    their ``bytes`` (decompressed). ``queued_bytes`` wait, as they came. ``lag`` is, for each
    partition that was read, how many offsets the log goes on behind what was handed out, as of the
    last fetch."""

    messages: int
    batches: int
    bytes: int
    queued_bytes: int
    lag: dict[TopicPartition, int]


class Stream:
    """Messages without end: ``for message in stream`` blocks while there is none, and so does
    ``next(stream)``. For one thread.

    After ``shutdown()`` iteration ends. When the connector failed, every call raises its error.
    A partition's messages come in order; those of different partitions are not ordered. A batch
    that does not decode is CorruptMessageError, at every call: nothing is passed over.

    ``clear`` is asked, by the application's thread, before a chunk's first message is handed out
    (at most once: its offset is stored by then). While it says no the stream gives nothing.
    ``timeout_ms``: iterating raises TimedOutError when no message comes for so long (-1: never).
    ``hooks`` are notified of messages a batch at a time, before the first of them is handed out.
    ``asking_settles``: a thread that asks for more has finished what it has in hand.
    """

    def __init__(
        self,
        gate: Gate,
        room: threading.Event,
        queue_bytes: int = QUEUE_BYTES,
        clear: Callable[[Chunk], bool] | None = None,
        timeout_ms: float = -1,
        hooks: Hooks | None = None,
        asking_settles: bool = True,
    ) -> None:
        self._gate = gate
        self._hooks = hooks or Hooks()
        self._room = room
        self._clear = clear
        self._timeout_ms = timeout_ms
        self._changed = threading.Condition()
        self._queue = ChunkQueue(queue_bytes, room, self._truncated)
        self._collector = FetchCollector(
            self._queue, self._hooks, must_be_clear=clear is not None, asking_settles=asking_settles
        )
        self._run: Iterator[Message] = iter(())  # may be had without the lock
        self._ended = False
        self._error: Exception | None = None
        self._calls = 0
        self._frozen: tuple[int, ...] | None = None
        self._waiting = False
        self._ends: dict[PartitionProgress, int] = {}
        self.reader = 0
        """Identity of the thread that asked last."""
        gate.on_close(self._collector.stop)

    # -- for the application ------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """As with any iterator, one that has raised an error is at its end; the next one goes on
        where it was."""
        return chain.from_iterable(self._runs())

    def __next__(self) -> Message:
        """The next message. StopIteration after ``shutdown()``."""
        message = next(self._run, None)
        if message is not None:
            return message
        found = self._wait_for(self._take_one, self._patience)
        if found:
            return found[0]
        if self._ended:
            raise StopIteration
        raise self._nothing_came()

    def _runs(self) -> Iterator[Iterable[Message]]:
        """The iterator of the stream, so that no Python code runs between two messages."""
        while found := self._wait_for(self._take_one, self._patience):
            yield found
            yield self._run
        if not self._ended:
            raise self._nothing_came()

    def batches(self) -> Iterator[MessageBatch]:
        """The same messages as columns, of one partition at a time: what has come, about 1 MB at
        most. Blocks, ends and raises as iterating does; a batch is in hand until the next one is
        asked for. Messages and batches may be mixed."""
        while found := self._wait_for(self._collector.take_batch, self._patience):
            yield found[0]
        if not self._ended:
            raise self._nothing_came()

    def poll(self, timeout: float | None = 0.0, max_messages: int = 500) -> list[Message]:
        """Up to ``max_messages`` that are there, fewer where these are large: about 16 MB, one
        batch of the broker at least. Waits up to ``timeout`` seconds (None: for ever) for the first
        one. Empty when none came. ClosedError after ``shutdown()``."""
        found = self._wait_for(lambda: self._collector.take(max_messages), timeout)
        if not found and self._ended:
            raise ClosedError("the consumer of this stream was shut down")
        return found

    def poll_batch(self, timeout: float | None = 0.0) -> MessageBatch | None:
        """The next of :meth:`batches`, None when none came within ``timeout`` seconds (None: wait
        for ever). ClosedError after ``shutdown()``."""
        found = self._wait_for(self._collector.take_batch, timeout)
        if not found and self._ended:
            raise ClosedError("the consumer of this stream was shut down")
        return found[0] if found else None

    def poll_chunks(self, timeout: float | None = 0.0, max_bytes: int = 1 << 20) -> list[Chunk]:
        """Batches as they were fetched, undecoded: for programs that pass them on. About
        ``max_bytes``, one chunk at least; waits like :meth:`poll`. A chunk counts as taken whole,
        its first batch may begin before its ``start``. Not to be mixed with messages."""
        chunks = self._wait_for(lambda: self._collector.take_chunks(max_bytes), timeout)
        if not chunks and self._ended:
            raise ClosedError("the consumer of this stream was shut down")
        return chunks

    def metrics(self) -> StreamMetrics:
        """What it has done so far. From any thread."""
        with self._changed:
            lag = {
                (item.topic, item.partition): max(0, end - taken.offset)
                for item, end in self._ends.items()
                if (taken := item.taken) is not None
            }
            number, batches, size = self._collector.counted
            return StreamMetrics(number, batches, size, self._queue.queued, lag)

    # -- for the connector --------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether the fetcher may add to the queue."""
        return self._queue.has_room

    def offer(self, chunk: Chunk) -> bool:
        """Queue a chunk; False, and nothing happens, when its partition was given up."""
        with self._changed:
            if not chunk.progress.active:
                return False
            self._queue.append(chunk)
            if chunk.high_watermark >= 0:
                self._ends[chunk.progress] = chunk.high_watermark
            self._changed.notify()
            return True

    def revoke(self, items: Sequence[PartitionProgress]) -> None:
        """Drop what is queued of these partitions and accept nothing more of them. What was handed
        out before is final when this returns; what is in hand stays there."""
        gone = set(items)
        with self._changed:
            standing = self._standing()
            for item in items:
                item.active = False
                self._ends.pop(item, None)
            self._collector.drop(gone)
            if not self._collector.is_reading:  # so the next call will be noticed
                self._frozen = standing
        self._room.set()

    def held(self) -> dict[PartitionProgress, int]:
        """What the application may still be at work on: partition to first offset."""
        with self._changed:
            return self._collector.held()

    def settle(self) -> None:
        """The application says that it is done with what it has in hand."""
        with self._changed:
            self._collector.settle()  # the next message is in hand again

    def standing(self) -> tuple[int, ...] | None:
        """Where the application is at work; the same value later says that it has not asked since.
        None while it waits for messages, or has none to ask for."""
        with self._changed:
            return self._frozen or self._standing()

    def wake(self) -> None:
        """The gate opened."""
        with self._changed:
            self._changed.notify()

    def end(self, error: Exception | None = None) -> None:
        """Hand out nothing more; later calls raise ``error``."""
        with self._changed:
            self._ended = True
            self._error = self._error or error
            self._collector.stop()
            self._changed.notify_all()

    # -- handing out --------------------------------------------------------------------------

    def _wait_for(self, take: Callable[[], list[T]], timeout: float | None) -> list[T]:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            self._asked()
            try:
                while True:
                    if self._error is not None:
                        raise self._error
                    if self._ended:
                        return []
                    refused = self._clear is not None and not self._clear_next(self._clear)
                    found = take() if self._gate.is_open else []
                    left = None if deadline is None else deadline - time.monotonic()
                    if found or (left is not None and left <= 0):
                        return found
                    if refused:
                        left = min(_CLEAR_AGAIN_SECONDS, left or _CLEAR_AGAIN_SECONDS)
                    self._changed.wait(left)
            finally:
                self._waiting = False

    @property
    def _patience(self) -> float | None:
        """Seconds that iterating waits for a message."""
        return None if self._timeout_ms < 0 else self._timeout_ms / 1000

    def _nothing_came(self) -> TimedOutError:
        return TimedOutError(f"no message came for consumer_timeout_ms={self._timeout_ms:g}")

    def _asked(self) -> None:
        """A thread that asks for more has finished what it has."""
        self.reader = threading.get_ident()
        self._calls += 1
        self._waiting = True
        self._collector.settle()
        self._queue.stays = False
        self._frozen = None

    def _standing(self) -> tuple[int, ...] | None:
        if self._waiting or not (self._collector.has_in_hand or self._queue):
            return None
        return (self._calls, self._queue.next_batch, self._collector.handed)

    def _clear_next(self, clear: Callable[[Chunk], bool]) -> bool:
        """Whether the next chunk, if there is one, may be handed out. Asked without the lock: the
        answer may come from afar."""
        self._collector.finish()
        if not self._queue or self._queue.chunks[0].cleared or not self._gate.is_open:
            return True
        chunk = self._queue.chunks[0]
        self._changed.release()
        try:
            cleared = clear(chunk)
        finally:
            self._changed.acquire()
        chunk.cleared = cleared and chunk.progress.active
        return cleared

    def _take_one(self) -> list[Message]:
        """One message; more can be had without waiting and locking."""
        found = self._collector.take(1)
        run = self._collector.run_on() if found else None
        if run is not None:
            self._run = run
            if not self._gate.is_open:  # the thread that closed it may have looked before
                self._collector.stop()
        return found

    def _truncated(self, item: PartitionProgress, offset: int) -> None:
        self._hooks.truncated(item.topic, item.partition, offset)
