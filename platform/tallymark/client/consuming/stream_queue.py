"""What lies between the fetcher and a stream's reader: the gate, and a queue of fetched chunks.

::

    fetcher ─► Chunk │ Chunk │ Chunk ─► batch by batch ─► columns or messages
               └── bounded by their bytes on the wire ──┘  decoded in the reader's thread
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.message_batch import read_columns
from tallymark.errors import TallymarkError
from tallymark.protocol.records.batch import Batch, BatchHeader
from tallymark.protocol.records.columns import RecordColumns


class Gate:
    """Whether consumption is allowed. It closes at the moment the session is suspended, in the
    thread that notices; it opens only for a thread that knows every suspension there was."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._suspensions = 0
        self._stops: list[Callable[[], None]] = []

    def on_close(self, stop: Callable[[], None]) -> None:
        """Have"""
        self._stops.append(stop)

    def suspend(self) -> None:
        """Close, and refuse an open() with an older mark than this suspension."""
        with self._lock:
            self._suspensions += 1
            self.is_open = False
        self._tell()

    def mark(self) -> int:
        """What :meth:`open` wants to be shown: the number of suspensions so far."""
        with self._lock:
            return self._suspensions

    def close(self) -> None:
        """Close until the next :meth:`open`."""
        self.is_open = False
        self._tell()

    def open(self, mark: int) -> None:
        """Open, unless there was a suspension since ``mark`` was taken."""
        with self._lock:
            self.is_open = mark == self._suspensions
        if not self.is_open:
            self._tell()

    def _tell(self) -> None:
        for stop in self._stops:
            stop()


@dataclass(slots=True)
class Chunk:
    """What one fetch brought of one partition: messages from ``start`` on; the next one is at
    ``next_offset``. Without batches it only moves the position (a reset)."""

    progress: PartitionProgress
    batches: Sequence[Batch]
    start: int
    next_offset: int
    epoch: int
    cleared: bool = False
    """Whether its messages may be handed out; see
    :class:`~tallymark.client.consuming.stream.Stream`."""
    high_watermark: int = -1
    source: str = ""
    """The broker it came from."""
    cut: int = -1
    """Of a reset: where the log was cut, if it was."""

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(batch.header.size for batch in self.batches)


class ChunkQueue:
    """Chunks in order, and how far into the first one its reader is. The caller holds the lock.

    ``room`` is set when a full queue (``limit`` bytes) has room again. ``on_cut`` is called when
    the reader comes to where the log was cut, with that offset.
    """

    def __init__(
        self,
        limit: int,
        room: threading.Event,
        on_cut: Callable[[PartitionProgress, int], None] | None = None,
    ) -> None:
        self.chunks: deque[Chunk] = deque()
        self.queued = 0
        """Bytes on the wire."""
        self.next_batch = 0
        """Of the first chunk."""
        self._limit = limit
        self._room = room
        self._on_cut = on_cut
        self.stays = False
        """Whether to go no further than to where the log was cut: what was taken before is still
        in hand."""

    def __bool__(self) -> bool:
        return bool(self.chunks)

    @property
    def first(self) -> PartitionProgress:
        """The partition of the first chunk."""
        return self.chunks[0].progress

    @property
    def has_room(self) -> bool:
        """Whether more may be added."""
        return self.queued < self._limit

    def append(self, chunk: Chunk) -> None:
        """Add a chunk at the end."""
        self.chunks.append(chunk)
        self.queued += chunk.size

    def pop(self) -> Chunk:
        """Take the first chunk off."""
        full = not self.has_room
        chunk = self.chunks.popleft()
        self.queued -= chunk.size
        self.next_batch = 0
        if full and self.has_room:
            self._room.set()
        if chunk.cut >= 0 and self._on_cut is not None:
            self._on_cut(chunk.progress, chunk.cut)
        return chunk

    def drop(self, gone: Collection[PartitionProgress]) -> None:
        """Forget what is queued of these."""
        if self.chunks and self.first in gone:
            self.next_batch = 0
        self.chunks = deque(chunk for chunk in self.chunks if chunk.progress not in gone)
        self.queued = sum(chunk.size for chunk in self.chunks)

    def finish(self) -> None:
        """Drop the chunks that are read to the end; their ends are the positions now."""
        while self._is_read() and not self.is_at_cut:
            chunk = self.pop()
            chunk.progress.move(chunk.next_offset, chunk.epoch)

    @property
    def is_at_cut(self) -> bool:
        """Whether this is as far as it goes for now."""
        return self.stays and bool(self.chunks) and self.chunks[0].cut >= 0

    def _is_read(self) -> bool:
        return bool(self.chunks) and self.next_batch >= len(self.chunks[0].batches)

    def read(self, may: Callable[[Chunk], bool]) -> tuple[BatchHeader, RecordColumns] | None:
        """The next batch with messages, of the chunk that is then the first; None when there is
        none, or it may not be handed out.

        Raises CorruptMessageError for a batch that does not decode, and again when it is asked
        again: nothing is passed over.
        """
        while True:
            self.finish()
            if not self.chunks or self.is_at_cut or not may(self.chunks[0]):
                return None
            batch = self.chunks[0].batches[self.next_batch]
            # Transaction markers are no messages.
            found = None if batch.header.is_control else self._columns(batch)
            self.next_batch += 1
            if found:
                return batch.header, found

    def read_on(self, epoch: int) -> tuple[BatchHeader, RecordColumns] | None:
        """The batch that follows in the same chunk, if it has messages and this leader epoch, and
        decodes; else None, and :meth:`read` reports what it is."""
        batches = self.chunks[0].batches
        if self.next_batch >= len(batches):
            return None
        batch = batches[self.next_batch]
        if batch.header.is_control or batch.header.partition_leader_epoch != epoch:
            return None
        try:
            found = self._columns(batch)
        except TallymarkError:
            return None
        if not found:
            return None
        self.next_batch += 1
        return batch.header, found

    def _columns(self, batch: Batch) -> RecordColumns:
        chunk = self.chunks[0]
        item = chunk.progress
        # A fetch answers with whole batches, also when it asked for the middle of one.
        return read_columns(item.topic, item.partition, batch, chunk.start, chunk.source)
