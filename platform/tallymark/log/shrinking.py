"""Removing records from a log: at its start (DeleteRecords, retention), in its middle (compaction).

The half of :class:`tallymark.log.log.Log` that changes its list of segments. What takes long comes
in steps, since an event loop must not wait for the disk: :mod:`tallymark.log.upkeep.deletion`,
:mod:`tallymark.log.compaction.swap`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tallymark.log.disk.files import Files
from tallymark.log.disk.health import guarded
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.leader_epochs import LeaderEpochs
from tallymark.log.producers.aborted import Aborted, AbortedIndexes
from tallymark.log.producers.recovery import load_producers
from tallymark.log.producers.snapshot import ProducerSnapshots
from tallymark.log.producers.state import ProducerStates
from tallymark.log.reading import ReadableLog
from tallymark.log.segments.segment import Segment
from tallymark.log.upkeep.deletion import DeletionJob, ExpiredSegments
from tallymark.log.upkeep.flush import DiskTurn

log = logging.getLogger(__name__)


class ShrinkingLog(ReadableLog):
    """See the module. For the owner's thread, except where it says otherwise."""

    directory: str
    _files: Files
    _key: LogKey
    _starts: StartOffsets
    _epochs: LeaderEpochs
    _snapshots: ProducerSnapshots
    _aborted: AbortedIndexes
    _producers: ProducerStates
    _active_since_ms: int | None
    _turn: DiskTurn
    _unfinished: list[Callable[[], None]]
    """Work with files that was begun and must be done before the log is cut; a second call does
    nothing."""

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.check_usable()
        with guarded(self._health, f"roll {self.name}"):
            self._roll()

    def _roll(self, base_offset: int | None = None) -> Segment:
        """``base_offset``: where the next batch begins; default: at the end. Between the two there
        is nothing, on no replica."""
        if self._segments.active.size == 0:
            return self._segments.active
        base = self.end_offset if base_offset is None else base_offset
        segment = Segment.create(
            self._files, self.directory, base, self._config.index_interval_bytes
        )
        kept = {each.base_offset for each in self._segments}
        self._snapshots.write(base, self._producers, kept)
        self._segments = self._segments.added(segment)
        self.end_offset = base
        self._active_since_ms = None
        return segment

    # --- deletion

    def delete_records(self, offset: int, until: int | None = None) -> int:
        """Delete the records before ``offset``; returns the offset the log begins at now. All steps
        of :meth:`begin_deletion`: durable on return."""
        job = self.begin_deletion(offset, until)
        job.run()
        self.finish_deletion(job)
        return job.start_offset

    def begin_deletion(self, offset: int, until: int | None = None) -> DeletionJob:
        """The log begins at ``offset`` from now on; segments wholly before it are removed. That is
        durable after ``run`` and :meth:`finish_deletion`. No effect where the log begins later
        already. Raises OFFSET_OUT_OF_RANGE beyond ``until``, the high watermark (None: the end)."""
        self.check_usable()
        if not 0 <= offset <= (self.end_offset if until is None else until):
            raise self._out_of_range(offset)
        with guarded(self._health, f"delete records of {self.name}"):
            if offset <= self.start_offset:
                return self._without_first(0)
            self._start = offset
            self._starts.put(self._key, offset)
            if offset == self.end_offset:
                self._roll()
            return self._without_first(self._segments.ended_before(offset))

    def find_expired(self, now_ms: int) -> ExpiredSegments:
        """The segments that retention would delete. Any thread may call it."""
        config = self._config
        if config.retention_ms < 0 and config.retention_bytes < 0:
            return ExpiredSegments((), 0)
        return self._look(
            "look for old segments of",
            lambda segments: ExpiredSegments.find(segments, config, now_ms),
        )

    def take_expired(self, old: ExpiredSegments, until: int | None = None) -> DeletionJob | None:
        """Remove from the list the segments that :meth:`find_expired` found, as far as they are
        still first, flushed, and below ``until``, the high watermark; None: there are none."""
        self.check_usable()
        safe = self.recovery_point if until is None else min(self.recovery_point, until)
        count = old.count_first(self._segments, safe)
        if not count:
            return None
        with guarded(self._health, f"delete old segments of {self.name}"):
            if count == len(self._segments):
                self._roll()
            return self._without_first(count)

    def finish_deletion(self, job: DeletionJob) -> None:
        """The last step. Raises KAFKA_STORAGE_ERROR where the disk failed."""
        self.forget_unfinished(job.run_once)
        if job.error is not None and not self._closed:
            raise self._health.failed(job.error, f"delete segments of {self.name}") from job.error

    def apply_retention(self, now_ms: int, until: int | None = None) -> int:
        """Delete segments that are too old or too many, in all steps. Returns how many. Readers
        keep the segments that they have open."""
        job = self.take_expired(self.find_expired(now_ms), until)
        if job is None:
            return 0
        job.run()
        self.finish_deletion(job)
        return len(job.segments)

    # --- compaction

    @property
    def closed_segments(self) -> tuple[Segment, ...]:
        """All segments except the active one: a compaction may read them."""
        return tuple(self._segments)[:-1]

    @property
    def segment_start(self) -> int:
        """The base offset of the first segment; it moves when segments are deleted."""
        return self._segments.start_offset

    @property
    def files(self) -> Files:
        """The disk that the log is on."""
        return self._files

    @property
    def disk_lock(self) -> threading.Lock:
        """Held by a thread that flushes, deletes or replaces segments of this log."""
        return self._turn.lock

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Change files of this log for a compaction, in any thread. Raises KafkaError:
        KAFKA_STORAGE_ERROR where the log is closed or the disk fails (it is offline then),
        CORRUPT_MESSAGE where a file is damaged."""
        with self.disk_lock, guarded(self._health, f"compact {self.name}"):
            self.check_usable()
            yield

    def replace_segments(
        self,
        old: Sequence[Segment],
        new: Segment,
        aborted: Sequence[Aborted],
        finish: Callable[[], None],
    ) -> bool:
        """Put a compacted segment in the place of these adjacent ones, with its aborted
        transactions; False where they are no longer in the log. A step of
        :mod:`tallymark.log.compaction.swap`, which handles the files: ``finish`` is the rest of it,
        for a holder of the lock, until :meth:`forget_unfinished`.
        """
        self.check_usable()
        replaced = self._segments.replaced(old, new)
        if replaced is None:
            return False
        # First: with the old list a reader finds some twice, with the new one it must find all.
        self._aborted.adopt(new.base_offset, aborted)
        self._segments = replaced
        self._unfinished.append(finish)
        for segment in old:  # after the list: a reader of a removed segment reads the list again
            segment.removed = True
            if segment.base_offset != new.base_offset:
                self._aborted.forget(segment.base_offset)
        return True

    def forget_unfinished(self, work: Callable[[], None]) -> None:
        """The work was done. Any thread may call it."""
        with suppress(ValueError):  # a cut has done it
            self._unfinished.remove(work)

    # --- producers and their transactions

    @property
    def producers(self) -> ProducerStates:
        """The idempotent producers that the log remembers; do not change them."""
        return self._producers

    def first_unstable(self, high_watermark: int) -> int | None:
        """Where the first transaction begins that is open, or that ended at ``high_watermark`` or
        behind it: readers of committed records stop there. None: there is none."""
        first = self._producers.transactions.first_unstable(high_watermark)
        return None if first is None else max(first, self.start_offset)

    def hold_back(self, high_watermark: int, now_ms: int) -> None:
        """After a start: the partition's high watermark is that, and readers wait for the markers
        that it has not passed. Reads the log from there on, if there are transactions."""
        known = any(entry.coordinator_epoch >= 0 for entry in self._producers)
        if known and high_watermark < self.end_offset:
            with guarded(self._health, f"read the producers of {self.name}"):
                self._producers.transactions = load_producers(
                    self._snapshots, self._segments, now_ms, high_watermark=high_watermark
                ).transactions

    def aborted(self, offset: int, until: int, *, wait: bool = True) -> list[Aborted]:
        """The aborted transactions that have records from ``offset`` to below ``until``, the last
        stable offset at most. Any thread may call it. Without ``wait`` ColdSegmentError where an
        index would have to be loaded: see :meth:`warm_aborted`."""
        bases = (each.base_offset for each in self._segments.from_offset(offset))
        with guarded(self._health, f"read the aborted transactions of {self.name}"):
            return self._aborted.before(bases, offset, until, wait=wait)

    def warm_aborted(self, offset: int) -> None:
        """Load what :meth:`aborted` needs for records of the segment that holds ``offset``. Any
        thread may call it."""
        segments = tuple(self._segments.from_offset(offset))
        bases = [each.base_offset for each in segments]
        with guarded(self._health, f"read the aborted transactions of {self.name}"):
            self._aborted.load(bases, segments[0].next_offset)

    def expire_producers(self, now_ms: int) -> int:
        """Forget idempotent producers that were idle too long. Returns how many."""
        return self._producers.expire(now_ms, self._config.producer_id_expiration_ms)

    def _without_first(self, count: int) -> DeletionJob:
        gone = tuple(self._segments)[:count]
        if gone:
            self._segments = self._segments.without_first(count)
            for segment in gone:
                self._aborted.forget(segment.base_offset)
            log.info("%s: deleted %d segments, starts at %d", self.name, count, self.start_offset)
        self._epochs.cut_start(self.start_offset)
        job = DeletionJob(
            self._files, self.directory, self._turn, gone, self.start_offset, self._starts.save
        )
        self._unfinished.append(job.run_once)
        return job
