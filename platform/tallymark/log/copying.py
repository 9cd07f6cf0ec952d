"""Writing what a leader has: batches come with their offsets and epochs, and are kept as they are.

A follower's append comes in two steps, since the checksums of a large answer take long::

    checked = log.check_leaders(data, log.follows(leader_epoch))     in any thread
    copied = log.append_checked(checked, now_ms)                     in the owner's thread

``log.append_leaders(data, leader_epoch, now_ms)`` does both. Between the two nothing else may have
been appended or cut: the caller sees to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallymark.log.cutting import CuttableLog
from tallymark.log.disk.files import Data
from tallymark.log.disk.health import guarded
from tallymark.log.producers.recovery import remember
from tallymark.log.results import Copied
from tallymark.log.segments.offset_index import MAX_RELATIVE
from tallymark.log.segments.segment import Segment
from tallymark.log.upkeep.roll_policy import must_roll
from tallymark.log.validation.leader_batches import (
    Follows,
    LeaderBatchError,
    check_leader_batches,
)
from tallymark.protocol.records.batch import Batch, BatchHeader


class CheckedBatches(NamedTuple):
    """The good batches at the beginning of ``data``, and what is wrong with the next one."""

    data: Data
    headers: Sequence[BatchHeader]
    fault: LeaderBatchError | None


class CopyingLog(CuttableLog):
    """See the module."""

    def append_leaders(self, data: Data, leader_epoch: int, now_ms: int) -> Copied:
        """Write the batches of a leader as they are, with its offsets and epochs: ``data`` is the
        answer to a fetch from :attr:`end_offset`, of a leader in ``leader_epoch``.

        Raises :class:`~tallymark.log.validation.leader_batches.LeaderBatchError` for the first bad
        batch: those before it are written, nothing of it. KAFKA_STORAGE_ERROR.
        """
        return self.append_checked(self.check_leaders(data, self.follows(leader_epoch)), now_ms)

    def follows(self, leader_epoch: int) -> Follows:
        """What the next batches of a leader in ``leader_epoch`` have to fit to."""
        self.check_usable()
        empty = self.start_offset == self.end_offset and not self._segments.active.size
        return Follows(self.name, self.end_offset, self._epochs.latest, leader_epoch, empty)

    @staticmethod
    def check_leaders(data: Data, after: Follows) -> CheckedBatches:
        """The first step of :meth:`append_leaders`; ``after`` is from :meth:`follows`."""
        return CheckedBatches(data, *check_leader_batches(data, after))

    def append_checked(self, checked: CheckedBatches, now_ms: int) -> Copied:
        """The second step. Raises as :meth:`append_leaders` does."""
        self.check_usable()
        data, headers, fault = checked
        if headers:
            with guarded(self._health, f"append to {self.name}"):
                self._make_room_for(headers[0])
                self._copy(memoryview(data), headers, now_ms)
        if fault is not None:
            raise fault
        return Copied(
            len(headers),
            sum(header.last_offset_delta + 1 for header in headers),
            len(data),
        )

    def _copy(self, data: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Write the batches, as many at a time as go into one segment."""
        first = begin = end = 0
        for number, header in enumerate(headers):
            segment, since = self._segments.active, self._active_since_ms
            size, age = segment.size + end - begin, 0 if since is None else now_ms - since
            last = header.last_offset - segment.base_offset
            if must_roll(self._config, size, age, header.size, last):
                self._copy_run(data[begin:end], headers[first:number], now_ms)
                # At the end, not at a gap: a recovery takes a gap between two segments for a loss.
                far = header.last_offset - self.end_offset > MAX_RELATIVE
                self._roll(header.base_offset if far else None)
                first, begin = number, end
            end += header.size
        self._copy_run(data[begin:end], headers[first:], now_ms)

    def _copy_run(self, data: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        if not headers:
            return
        active, position = self._segments.active, 0
        active.append_batches(data, headers)
        # Nothing may remember a batch before its bytes are written.
        epochs, producers = self._epochs, self._producers
        for header in headers:
            if header.partition_leader_epoch != epochs.noted:
                epochs.note(header.partition_leader_epoch, header.base_offset)
            if header.is_control:
                batch = Batch(header, data[position : position + header.size])
                self._remember_marker(active, batch, header.base_offset, now_ms)
            elif header.producer_id >= 0:
                producers.add(header, header.base_offset, now_ms)
            position += header.size
        self._grown(headers[-1].next_offset, now_ms)

    def _remember_marker(self, segment: Segment, batch: Batch, offset: int, now_ms: int) -> None:
        """A control batch was written to the segment."""
        if batch.header.producer_id < 0:
            return
        ended = remember(self._producers, batch, offset, now_ms)
        if ended is not None and not ended.commit:
            self._aborted.add(segment.base_offset, ended)

    def _make_room_for(self, header: BatchHeader) -> None:
        """Let an empty segment begin where the batch begins: before the start of the log, if the
        leader's log begins inside of this batch, or so far behind it that the index could not hold
        its offsets."""
        active, base = self._segments.active, header.base_offset
        relative = header.last_offset - active.base_offset
        if active.size or (base >= active.base_offset and relative <= MAX_RELATIVE):
            return
        self._start = self.start_offset
        self._starts.put(self._key, self._start)
        new = Segment.create(self._files, self.directory, base, self._config.index_interval_bytes)
        self._segments = self._segments.without_last(1).added(new)
        self.end_offset = max(self.end_offset, base)
        active.remove()

    def _grown(self, end_offset: int, now_ms: int) -> None:
        self.end_offset = end_offset
        if self._active_since_ms is None:
            self._active_since_ms = now_ms
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
