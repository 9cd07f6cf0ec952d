"""Takes what is queued for a stream: as messages, as columns, or as chunks.

::

    ChunkQueue ─► Reading ─► take         a list of messages
               │          └► run_on       the messages behind them, one by one, without the lock
               ├───────────► take_batch   columns
               └───────────► take_chunks  undecoded

It remembers for each partition the first offset that the last call took: the application may still
be at work on it (*in hand*).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tallymark.client.consuming.hooks import Hooks
from tallymark.client.consuming.marks import NO_MARKS, Marks
from tallymark.client.consuming.reading import Reading
from tallymark.client.consuming.stream_queue import Chunk, ChunkQueue
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.client.reading.message import Message
from tallymark.client.reading.message_batch import MessageBatch, read_columns
from tallymark.errors import TallymarkError
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.records.columns import RecordColumns

_BATCH_BYTES: Final = 1024 * 1024
_RUN_BYTES: Final = 128 * 1024
"""So much is unpacked to be handed out without the lock: a batch may be a few messages only."""
_POLL_BYTES: Final = 16 * 1024 * 1024
"""What is unpacked for one :meth:`FetchCollector.take`, unless the first batch holds more."""


class FetchCollector:
    """The caller holds the stream's lock, except for :meth:`stop`. With ``must_be_clear`` only
    chunks that were cleared are taken. ``hooks`` and ``asking_settles`` are those of
    :class:`~tallymark.client.consuming.stream.Stream`."""

    def __init__(
        self, queue: ChunkQueue, hooks: Hooks, *, must_be_clear: bool, asking_settles: bool
    ) -> None:
        self.counted = [0, 0, 0]
        """Messages, batches, bytes that were handed out or begun."""
        self._queue = queue
        self._hooks = hooks
        self._must_be_clear = must_be_clear
        self._asking_settles = asking_settles
        self._reading: Reading | None = None
        self._in_hand: dict[PartitionProgress, int] = {}
        self._one_in_hand = False

    @property
    def is_reading(self) -> bool:
        """Whether a batch is handed out in part."""
        return self._reading is not None

    @property
    def handed(self) -> int:
        """How many messages of that batch were handed out."""
        return self._reading.handed if self._reading is not None else 0

    @property
    def has_in_hand(self) -> bool:
        """Whether the application may be at work on something."""
        return self._one_in_hand or bool(self._in_hand)

    def held(self) -> dict[PartitionProgress, int]:
        """What the application may be at work on: partition to first offset."""
        if self._one_in_hand and self._reading is not None:
            return {self._queue.first: self._reading.last()}
        return dict(self._in_hand)

    def settle(self) -> None:
        """Nothing is in hand any more, and nothing can be had without the lock."""
        self.stop()
        if self._hooks:
            for item in self.held():
                if (taken := item.taken) is not None:
                    item.marks.settle(taken.offset)
        self._in_hand, self._one_in_hand = {}, False

    def drop(self, gone: Collection[PartitionProgress]) -> None:
        """Forget what is queued of these partitions; what is in hand stays there."""
        if self._queue and self._queue.first in gone:
            self.stop()
            self._in_hand, self._one_in_hand = self.held(), False
            self._reading = None
        self._queue.drop(gone)

    def stop(self) -> None:
        """Let nothing be had without the lock. Any thread may say so; the lock is needed only where
        that is to last."""
        reading = self._reading
        if reading is not None:
            reading.stop()

    def take(self, limit: int) -> list[Message]:
        """Up to ``limit`` messages; fewer where these are large: about 16 MB, one batch at least.
        CorruptMessageError for a batch that does not decode, if it is the first."""
        taken: list[Message] = []
        size = 0
        while len(taken) < limit and size < _POLL_BYTES:
            self.finish()
            reading = self._reading or self._begin(bool(taken))
            if reading is None:
                break
            size += reading.size
            item = self._queue.first
            first = self._in_hand.setdefault(item, reading.first())
            taken += reading.take(limit - len(taken))
            item.marks.hand_out(first, reading.last())
            self._queue.stays = True
        self.finish()
        return taken

    def run_on(self) -> Iterator[Message] | None:
        """The messages behind the one that was just taken, to be had without the lock until
        :meth:`stop`; None: that was the last of its batch."""
        reading = self._reading
        if reading is None:
            return None
        self._one_in_hand = True
        marks = self._queue.first.marks
        marks.hand_out_one(reading.last())
        return reading.run(marks.follow if self._hooks else None)

    def take_batch(self) -> list[MessageBatch]:
        """What has come of one partition, as columns: about 1 MB at most; [] when nothing is there.
        Raises as :meth:`take`."""
        parts: list[tuple[int, RecordColumns]] = []
        size, end = 0, -1
        reading, self._reading = self._reading, None
        if reading is not None and reading.left:
            parts = [(reading.epoch, columns) for columns in reading.rest()]
            size, end = sum(columns.size for _, columns in parts), reading.next_offset
            self._take_part(parts[0], end)
        item = self._queue.first if parts else None
        while size < _BATCH_BYTES:
            self._queue.finish()
            if item is not None and not (self._queue and self._queue.first is item):
                break
            found = self._read(bool(parts), item)
            if found is None:
                break
            header, columns = found
            item, end = self._queue.first, header.next_offset
            parts.append((header.partition_leader_epoch, columns))
            size += columns.size
            self._take_part(parts[-1], end)
        self._queue.finish()
        if item is None:
            return []
        return [MessageBatch(item.topic, item.partition, parts, end, parts[-1][0])]

    def take_chunks(self, max_bytes: int) -> list[Chunk]:
        """Chunks as they were fetched, about ``max_bytes``, one at least if one is there."""
        taken: list[Chunk] = []
        room = max_bytes
        while self._queue and (not taken or room > 0) and self._is_clear(self._queue.chunks[0]):
            if self._queue.is_at_cut:
                break
            chunk = self._queue.pop()
            taken.append(chunk)
            self._queue.stays = True
            self._in_hand.setdefault(chunk.progress, chunk.start)
            room -= chunk.size
            for batch in chunk.batches:
                header = batch.header
                if self._hooks and not header.is_control:
                    topic, partition = chunk.progress.topic, chunk.progress.partition
                    columns = read_columns(topic, partition, batch, chunk.start, chunk.source)
                    self._hooks.handed_out(topic, partition, columns)
                self.counted[0] += header.record_count
                self.counted[1] += 1
                self.counted[2] += header.size
                chunk.progress.take(
                    header.base_offset, header.next_offset, header.partition_leader_epoch
                )
            chunk.progress.move(chunk.next_offset, chunk.epoch)
        return taken

    def finish(self) -> None:
        """Forget the batch that is handed out to the end, and its chunk with the last one."""
        if self._reading is None or not self._reading.left:
            self._reading = None
            self._queue.finish()

    def _begin(self, is_enough: bool) -> Reading | None:
        """Read on: the next batch, and more of them when they are small."""
        found = self._read(is_enough)
        if found is None:
            return None
        header, columns = found
        item, epoch = self._queue.first, header.partition_leader_epoch
        parts, size = [columns], columns.size
        while size < _RUN_BYTES and (found := self._queue.read_on(epoch)) is not None:
            header, columns = found
            self._count(columns)
            parts.append(columns)
            size += columns.size
        self._reading = Reading(item.topic, item.partition, epoch, parts, header.next_offset)
        item.read(self._reading)
        return self._reading

    def _take_part(self, part: tuple[int, RecordColumns], next_offset: int) -> None:
        epoch, columns = part
        item, first = self._queue.first, columns.offsets[0]
        item.marks.hand_out(self._in_hand.setdefault(item, first), columns.offsets[-1])
        item.take(first, next_offset, epoch)
        self._queue.stays = True

    def _read(
        self, is_enough: bool, only: PartitionProgress | None = None
    ) -> tuple[BatchHeader, RecordColumns] | None:
        """The next batch, if it is ``only``'s; ``is_enough``: some was taken before it. One that
        does not decode must not swallow that: it is met again, and raises, at the next call."""

        def may(chunk: Chunk) -> bool:
            return only in (None, chunk.progress) and self._is_clear(chunk)

        try:
            found = self._queue.read(may)
        except TallymarkError:
            if is_enough:
                return None
            raise
        if found is not None:
            self._count(found[1])
        return found

    def _count(self, columns: RecordColumns) -> None:
        counted = self.counted
        counted[0] += len(columns)
        counted[1] += 1
        counted[2] += columns.size
        if self._hooks:
            item = self._queue.first
            self._hooks.handed_out(item.topic, item.partition, columns)
            if item.marks is NO_MARKS:
                views = self._hooks.views(item.topic, item.partition)
                item.marks = Marks(views, self._asking_settles)

    def _is_clear(self, chunk: Chunk) -> bool:
        return chunk.cleared or not self._must_be_clear
