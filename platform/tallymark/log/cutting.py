"""Cutting a log at its end: a follower gives up what its leader does not have (KIP-101, KIP-279).

A cut comes in three steps, since an event loop must not wait for the disk::

    job = log.begin_cut(offset, now_ms)     in the owner's thread: the log is shut to all others
    job.run()                               in any thread
    cut = log.finish_cut(job)               in the owner's thread: the log is open again

``log.truncate_to(offset, now_ms)`` does all of it. While it is shut, reads, appends and flushes get
REPLICA_NOT_AVAILABLE. The order of ``run``; a crash between any two lines leaves a log that opens
with what was below the cut, and perhaps with more of the old records::

    what is under way of deletions and compactions     is finished, or is void from now on
    recovery point                                     down to the cut, durably: what is written
                                                       there from now on is verified at a start
    leader epochs                                      durably, also where no byte is cut
    newer segments, the newest first; their names      durably: an old segment that came back could
                                                       be taken for the continuation of the new ones
    the segment of the cut, its indexes                durably, for the same reason
    producers                                          from the newest snapshot below the cut

A flush that began before the cut counts for nothing, and a compaction puts nothing into the log
(:attr:`CuttableLog.cuts`): the same offsets may hold other records by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.loading.log_loader import age_of
from tallymark.log.producers.recovery import load_producers
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.segment_list import SegmentList
from tallymark.log.segments.shortening import end_before, shortened
from tallymark.log.segments.swap_files import remove_prepared
from tallymark.log.shrinking import ShrinkingLog
from tallymark.log.upkeep.flush import FlushJob

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a cut takes, or has taken: ``offsets`` offsets up to below ``old_end_offset``, ``size``
    bytes of batches. ``epochs`` are the (leader epoch, first offset) of these records, and of
    epochs without records that are forgotten. The log begins and ends at ``start_offset`` and
    ``end_offset`` then."""

    start_offset: int
    end_offset: int
    old_end_offset: int
    offsets: int
    size: int
    epochs: tuple[tuple[int, int], ...]

    @property
    def first_offset(self) -> int:
        """The first offset that goes; a log that begins anew ends elsewhere than there."""
        return self.old_end_offset - self.offsets

    def is_below(self, high_watermark: int) -> bool:
        """Whether acknowledged records are given up: after an unclean election, or for a fault."""
        return self.offsets > 0 and self.end_offset < high_watermark


class CutJob:
    """The step of a cut that waits for the disk. ``cut`` is its result, ``error`` says why there is
    none."""

    __slots__ = ("_work", "cut", "error")

    def __init__(self, work: Callable[[], Cut]) -> None:
        self._work = work
        self.cut: Cut | None = None
        self.error: OSError | CorruptRecordError | None = None

    def run(self) -> None:
        """See the module. Raises nothing: see ``error``."""
        try:
            self.cut = self._work()
        except (OSError, CorruptRecordError) as error:
            self.error = error


class CuttableLog(ShrinkingLog):
    """See the module. ``cuts`` counts the cuts since the log was opened. From ``corrupt_from`` on
    it was found to be corrupt, -1 where it was not; a cut ends that. ``save_recovery_points``
    writes the recovery points of the data directory, durably; default: there are none."""

    cuts: int
    corrupt_from: int
    save_recovery_points: Callable[[], None]
    _job: FlushJob | None
    _unflushed_since_ms: int | None
    _half_cut: bool

    @property
    def is_corrupt(self) -> bool:
        """Whether a batch was found to be corrupt that is in the log still."""
        return self.start_offset <= self.corrupt_from

    def truncate_to(self, offset: int, now_ms: int) -> Cut:
        """Remove the records from ``offset`` on, in all steps, and the epochs that begin there. A
        batch that holds records on both sides goes as a whole, and the log ends behind a batch: a
        gap that compaction has left below ``offset`` goes too. Where nothing would remain the log
        begins at ``offset``. No effect on records where the log ends earlier.

        Raises KAFKA_STORAGE_ERROR, and CORRUPT_MESSAGE where the log cannot be read at ``offset``.
        """
        return self._cut_now(self.begin_cut(offset, now_ms))

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> Cut:
        """Remove all records: the log begins and ends at ``offset``, wherever it was before."""
        return self._cut_now(self.begin_cut(offset, now_ms, fully=True))

    def _cut_now(self, job: CutJob) -> Cut:
        job.run()
        return self.finish_cut(job)

    def begin_cut(self, offset: int, now_ms: int, *, fully: bool = False) -> CutJob:
        """The first step of :meth:`truncate_to`, or with ``fully`` of
        :meth:`truncate_fully_and_start_at`."""
        self.check_usable()
        self._shut = f"being cut to offset {offset}"
        self.cuts += 1
        if self._job is not None:
            self._job.void = True
            self._unflushed_since_ms = self._job.since_ms
            self._job = None
        return CutJob(lambda: self._cut(offset, now_ms, fully))

    def finish_cut(self, job: CutJob) -> Cut:
        """The last step. Raises as :meth:`truncate_to` does; then the log ends where it ended, or
        further down, and the cut is to be tried again."""
        if self._closed:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{self.name} is closed")
        self._shut = None
        if isinstance(job.error, OSError):
            raise self._health.failed(job.error, f"cut {self.name}") from job.error
        if job.cut is None:
            raise KafkaError(CODES["CORRUPT_MESSAGE"], f"cut {self.name}: {job.error}")
        if job.cut.end_offset <= self.corrupt_from:
            self.corrupt_from = -1
        if job.cut.offsets or job.cut.epochs:
            log.info("%s: cut: %s", self.name, job.cut)
        return job.cut

    def tail(self, offset: int, *, fully: bool = False) -> Cut:
        """What a cut to ``offset`` would take, so that it can be saved before. Any thread may call
        it; the caller sees to it that nothing is appended meanwhile."""
        if fully:
            return self._all(offset)
        return self._look("read", lambda segments: self._plan(segments, offset)[0])

    # --- inside: in the thread that runs the job

    def _plan(self, segments: SegmentList, offset: int) -> tuple[Cut, int, int]:
        """What a cut takes; the number of the segment that becomes the last one, and the position
        of the cut in it."""
        old_end = self.end_offset
        end = min(offset, old_end)
        number = segments.ended_before(end)
        segment = segments[number]
        position = segment.size
        if offset < old_end:
            if (place := segment.find(end)) is not None:
                position = place.position
            end = end_before(segment, position)
        size = segment.size - position
        size += sum(each.size for each in tuple(segments)[number + 1 :])
        start = self.start_offset
        if offset < old_end and end <= start:
            return self._all(offset), 0, 0
        epochs = self._epochs.since(end if offset < old_end else offset, old_end)
        return Cut(start, end, old_end, old_end - end, size, epochs), number, position

    def _all(self, offset: int) -> Cut:
        old_end, epochs = self.end_offset, self._epochs.entries
        offsets = old_end - self.start_offset
        return Cut(offset, offset, old_end, offsets, self.size, epochs)

    def _cut(self, offset: int, now_ms: int, fully: bool) -> Cut:
        with self._turn.lock:
            if self._turn.error is not None:
                raise self._turn.error
            while self._unfinished:
                self._unfinished[0]()
                del self._unfinished[0]
            remove_prepared(self._files, self.directory)
            cut, number, position = self._all(offset), 0, 0
            if not fully:
                cut, number, position = self._plan(self._segments, offset)
                fully = offset < self.end_offset and cut.start_offset == cut.end_offset
            touched = fully or cut.offsets > 0 or self._half_cut
            first = self._segments.start_offset
            self._lower_recovery_point(min(first, offset) if fully else cut.end_offset)
            self._epochs.cut(-1 if fully else cut.end_offset if cut.offsets else offset)
            self._half_cut = touched
            if fully:
                self._drop_all(offset)
            elif touched:
                self._drop_tail(number, position, cut.end_offset)
            if touched:
                self._rebuild(now_ms)
            return cut

    def _lower_recovery_point(self, offset: int) -> None:
        if offset < self.recovery_point:
            self.recovery_point = offset
            self.save_recovery_points()

    def _drop_tail(self, number: int, position: int, end: int) -> None:
        """Let the log end at ``end``: at this position of the segment with this number."""
        while len(self._segments) > number + 1:
            self._drop_last()
        self._snapshots.cut(end)
        self._files.sync_dir(self.directory)
        self._shorten_active(position, end)

    def _drop_all(self, offset: int) -> None:
        """Let the log begin and end at ``offset``. As long as the first segment's name is there, a
        start finds an empty log."""
        while len(self._segments) > 1:
            self._drop_last()
        self._shorten_active(0, self._segments.active.base_offset)
        self._snapshots.cut(-1)
        self._files.sync_dir(self.directory)
        self._start = offset
        self._starts.put(self._key, offset)
        self._starts.save()
        emptied = self._segments.active
        if emptied.base_offset != offset:
            interval = self._config.index_interval_bytes
            new = Segment.create(self._files, self.directory, offset, interval)
            self._files.sync_dir(self.directory)
            self._segments = SegmentList((new,))
            self._aborted.forget(emptied.base_offset)
            emptied.remove()
            self._files.sync_dir(self.directory)
        self.end_offset = self.recovery_point = offset

    def _drop_last(self) -> None:
        last = self._segments.active
        self._aborted.forget(last.base_offset)
        self._segments = self._segments.without_last(1)
        self.end_offset = self._segments.active.next_offset
        self.recovery_point = min(self.recovery_point, self.end_offset)
        last.remove()

    def _shorten_active(self, position: int, end: int) -> None:
        old = self._segments.active
        # First: an entry that came back would hide what is written at these offsets then.
        self._aborted.cut(old.base_offset, end)
        interval = self._config.index_interval_bytes
        cut = shortened(old, self._files, interval, position, end)
        self._segments = self._segments.without_last(1).added(cut)
        self.end_offset = end

    def _rebuild(self, now_ms: int) -> None:
        """What was remembered of the records that are gone."""
        before = self._producers.transactions
        self._producers = load_producers(self._snapshots, self._segments, now_ms)
        self._producers.transactions.keep_ended(before, self.end_offset)
        self._producers.expire(now_ms, self._config.producer_id_expiration_ms)
        self._active_since_ms = age_of(self._segments.active, now_ms)
        if self.recovery_point >= self.end_offset:
            self._unflushed_since_ms = None
        self._half_cut = False
