"""The log of one partition: appended at its end, read from any offset, cut where a crash tore it.

::

    start_offset                 recovery_point        end_offset
    |  segment  |  segment  |  active segment              |
    ^ oldest kept           ^ on the disk for sure         ^ the next record

One owner (the partition of the broker) calls everything in one thread; only :meth:`Log.read` may
be called in any. Nothing waits for the disk but :meth:`Log.open`, :meth:`Log.flush`,
:meth:`Log.start_epoch`, :meth:`Log.apply_retention` and :meth:`Log.close`. Every disk failure comes
out as KafkaError KAFKA_STORAGE_ERROR and takes the data directory offline
(:mod:`tallymark.log.health`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.files import Data, Files
from tallymark.log.flush import FlushJob
from tallymark.log.health import DiskHealth
from tallymark.log.results import AppendInfo, LogSlice
from tallymark.log.retention import SegmentFacts, deletable
from tallymark.log.rules import must_flush, must_roll
from tallymark.log.segment import Segment
from tallymark.log.start import Start, start_log
from tallymark.log.time_search import OffsetAt, first_at_or_after, greatest
from tallymark.log.validation import validate_batch
from tallymark.protocol.records import BatchHeader, place_batch

__all__ = ["EARLIEST", "LATEST", "AppendInfo", "Log", "LogSlice"]

log = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2


class Log:
    """See the module. Made by :meth:`open`.

    ``name`` is the folder's, ``orders-0``; ``config`` may be replaced at any time; ``recovered``
    says what an unclean start found.
    """

    def __init__(
        self, files: Files, directory: str, config: LogConfig, health: DiskHealth, start: Start
    ) -> None:
        self.name = directory.rsplit("/", 1)[-1]
        self.directory = directory
        self.config = config
        self.end_offset = start.segments.active.next_offset
        self.recovery_point = start.recovery_point
        self.recovered = start.recovered
        self._files = files
        self._health = health
        self._segments = start.segments
        self._epochs = start.epochs
        self._snapshots = start.snapshots
        self._producers = start.producers
        self._active_since_ms = start.active_since_ms
        self._unflushed_since_ms = start.unflushed_since_ms
        self._job: FlushJob | None = None
        self._closed = False

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        health: DiskHealth | None = None,
    ) -> Log:
        """Open the log in a folder that exists; an empty folder is a new log.

        ``clean``: it was closed by :meth:`close`. Otherwise everything from ``recovery_point`` on
        is verified and what does not hold is cut; :attr:`recovered` then says what was found.
        """
        health = health or DiskHealth(directory)
        with _guarded(health, f"open {directory}"):
            start = start_log(files, directory, config, clean, now_ms, recovery_point)
            return cls(files, directory, config, health, start)

    # --- append

    def append(
        self, data: Data, now_ms: int, leader_epoch: int, *, control: bool = False
    ) -> AppendInfo:
        """Write the one batch that ``data`` is, all of it or nothing, after checking all of it.

        Its offsets and ``leader_epoch`` are placed in ``data`` itself where that is writable. A
        repeated batch of an idempotent producer is answered with its first offsets. ``control``:
        it comes from a transaction coordinator. Raises KafkaError: what
        :func:`~tallymark.log.validation.validate_batch` and
        :class:`~tallymark.log.producer_state.ProducerStates` say, FENCED_LEADER_EPOCH,
        KAFKA_STORAGE_ERROR.
        """
        self._check_usable()
        header = validate_batch(data, self.config, self.name, control=control)
        if header.producer_id >= 0 and not control:
            kept = self._producers.check(header)
            if kept is not None:
                return AppendInfo(kept.first_offset, kept.last_offset, True, header.max_timestamp)
        try:
            return self._write(header, data, now_ms, leader_epoch)
        except OSError as error:
            raise self._health.failed(error, f"append to {self.name}") from error

    def _write(self, header: BatchHeader, data: Data, now_ms: int, leader_epoch: int) -> AppendInfo:
        first = self.end_offset
        last = first + header.last_offset_delta
        segment = self._segments.active
        since = self._active_since_ms
        age = 0 if since is None else now_ms - since
        if must_roll(self.config, segment.size, age, len(data), last - segment.base_offset):
            segment = self._roll()
        if leader_epoch != self._epochs.saved:
            self._epochs.assign(leader_epoch, first)
        if isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = bytearray(data)
        place_batch(data, 0, first, leader_epoch)
        segment.append(data, last, header.max_timestamp)
        # Only now that the bytes are written may anything remember them.
        if header.producer_id >= 0:
            self._producers.add(header, first, now_ms)
        self.end_offset = last + 1
        if self._active_since_ms is None:
            self._active_since_ms = now_ms
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        return AppendInfo(first, last, False, header.max_timestamp)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._check_usable()
        with _guarded(self._health, f"roll {self.name}"):
            self._roll()

    def _roll(self) -> Segment:
        if self._segments.active.size == 0:
            return self._segments.active
        segment = Segment.create(
            self._files, self.directory, self.end_offset, self.config.index_interval_bytes
        )
        self._snapshots.write(self.end_offset, self._producers)
        self._segments = self._segments.added(segment)
        self._active_since_ms = None
        return segment

    # --- read

    @property
    def start_offset(self) -> int:
        """The first offset that is kept."""
        return self._segments.start_offset

    @property
    def high_watermark(self) -> int:
        """Up to here records are shown to readers. There is one replica, so this is the end."""
        return self.end_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is open. There are none, so this is the high watermark."""
        return self.high_watermark

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def read(self, offset: int, max_bytes: int, *, min_one: bool = True) -> LogSlice:
        """Whole batches from the one that holds ``offset`` on, at most ``max_bytes`` of them, of
        one segment. ``min_one``: at least one batch, however large.

        Raises KafkaError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR.
        """
        self._check_usable()
        end = self.end_offset
        if offset == end:
            return LogSlice(b"", end)
        if not self.start_offset <= offset < end:
            raise KafkaError(
                CODES["OFFSET_OUT_OF_RANGE"],
                f"{self.name}: {offset} is not in {self.start_offset} to {end}",
            )
        with _guarded(self._health, f"read {self.name}"):
            for segment in self._segments.from_offset(offset):
                found = segment.read(offset, max_bytes, min_one)
                if found is not None and found.data.size:
                    return LogSlice(found.data, found.next_offset)
                if found is not None:
                    return LogSlice(b"", offset)
        return LogSlice(b"", end)

    def offset_for_time(self, timestamp: int) -> OffsetAt | None:
        """The first record whose timestamp (ms) is ``timestamp`` or later, None where there is
        none. Exact, also where timestamps are out of order."""
        self._check_usable()
        with _guarded(self._health, f"search {self.name}"):
            for segment in self._segments:
                if found := first_at_or_after(segment, timestamp):
                    return found
        return None

    def max_timestamp(self) -> OffsetAt | None:
        """The first record with the greatest timestamp of all, None where the log is empty."""
        self._check_usable()
        with _guarded(self._health, f"search {self.name}"):
            filled = [segment for segment in self._segments if segment.size]
            return greatest(max(filled, key=lambda s: s.max_timestamp)) if filled else None

    def offsets_before(self, time_ms: int, max_offsets: int) -> list[int]:
        """Where segments begin whose records are all at or before ``time_ms``, newest first, at
        most ``max_offsets``. :data:`LATEST` (-1): the end of the log and all beginnings;
        :data:`EARLIEST` (-2): the first offset."""
        self._check_usable()
        if time_ms == EARLIEST:
            return [self.start_offset][:max_offsets]
        with _guarded(self._health, f"search {self.name}"):
            bases = [
                segment.base_offset
                for segment in self._segments
                if time_ms == LATEST or segment.max_timestamp <= time_ms
            ]
        ends = {self.end_offset} if time_ms == LATEST else set[int]()
        return sorted(ends.union(bases), reverse=True)[:max_offsets]

    # --- leader epochs

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch the log has seen, -1 before the first."""
        return self._epochs.latest

    @property
    def next_epoch(self) -> int:
        """The smallest epoch a leader may start: above every epoch the log ever was in, also those
        that a crash has cut off. A reader could not tell a cut from an epoch used twice."""
        return self._epochs.highest + 1

    def start_epoch(self, epoch: int) -> None:
        """This broker leads in ``epoch`` from now on: the epoch begins at the end of the log.
        Durable on return. Raises FENCED_LEADER_EPOCH where the log is in a newer one."""
        self._check_usable()
        with _guarded(self._health, f"start epoch {epoch} of {self.name}"):
            self._epochs.assign(epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest epoch not above ``epoch``; (-1, -1) where that is
        not known (KIP-320). A reader beyond that offset has read what was cut."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    # --- flush

    def flush_due(self, now_ms: int) -> bool:
        """Whether the flush policy of the config asks for a flush."""
        since = self._unflushed_since_ms
        if since is None or self._job is not None or self._closed:
            return False
        return must_flush(self.config, self.end_offset - self.recovery_point, now_ms - since)

    def take_flush(self) -> FlushJob | None:
        """The first of the three steps of :mod:`tallymark.log.flush`. None where there is nothing
        to do, or a job under way."""
        if self._job is None and self.recovery_point < self.end_offset:
            self._job = self._new_job()
            return self._job
        return None

    def finish_flush(self, job: FlushJob) -> None:
        """The last step. Raises KAFKA_STORAGE_ERROR where the syncs failed."""
        if self._job is job:
            self._job = None
        if self._closed:
            return
        if job.error is not None:
            raise self._health.failed(job.error, f"flush {self.name}")
        self.recovery_point = max(self.recovery_point, job.offset)

    def flush(self) -> None:
        """Return when everything is on the disk."""
        self._check_usable()
        if self.recovery_point < self.end_offset:
            job = self._new_job()
            job.run()
            self.finish_flush(job)

    def _new_job(self) -> FlushJob:
        self._check_usable()
        # What a job under way has not synced yet is part of this one as well.
        handles = list(self._job.handles) if self._job else []
        with _guarded(self._health, f"flush {self.name}"):
            for segment in self._segments.from_offset(self.recovery_point):
                handles += segment.save()
        self._unflushed_since_ms = None
        return FlushJob(self._files, handles, self.directory, self.end_offset)

    # --- housekeeping

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments that are too old or too many, forget idle producers; how many segments
        went. Readers keep what they hold. A segment that was not flushed yet stays."""
        self._check_usable()
        self._producers.expire(now_ms, self.config.producer_id_expiration_ms)
        with _guarded(self._health, f"delete old segments of {self.name}"):
            facts = [SegmentFacts(each.size, each.max_timestamp) for each in self._segments]
            count = deletable(facts, now_ms, self.config.retention_ms, self.config.retention_bytes)
            # After a power failure a deleted segment may be back: then with all of its records, or
            # the log would seem to be torn there.
            flushed = sum(each.next_offset <= self.recovery_point for each in self._segments)
            count = min(count, flushed)
            if count:
                self._delete_first(count)
        return count

    def _delete_first(self, count: int) -> None:
        if count == len(self._segments):
            self._roll()
        gone = tuple(self._segments)[:count]
        # The names of the segments that stay must be durable first: a folder that loses all of them
        # would begin again at offset 0.
        self._files.sync_dir(self.directory)
        self._segments = self._segments.without_first(count)
        self._epochs.cut_start(self.start_offset)
        for segment in gone:
            segment.remove()
        log.info("%s: deleted %d segments, starts at %d", self.name, count, self.start_offset)

    def close(self) -> None:
        """Flush, write the producer snapshot, let go of the files. Readers keep what they hold."""
        if self._closed:
            return
        try:
            self.flush()
            with _guarded(self._health, f"close {self.name}"):
                self._snapshots.write(self.end_offset, self._producers)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files without writing anything: the log was deleted, or its disk failed."""
        self._closed = True
        for segment in self._segments:
            segment.close()

    def _check_usable(self) -> None:
        if self._health.error is not None:
            self._health.check(self.name)
        if self._closed:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{self.name} is closed")


@contextmanager
def _guarded(health: DiskHealth, doing: str) -> Iterator[None]:
    """Turn a disk failure into KAFKA_STORAGE_ERROR, damage found in the log into
    CORRUPT_MESSAGE."""
    try:
        yield
    except OSError as error:
        raise health.failed(error, doing) from error
    except CorruptRecordError as error:
        raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{doing}: {error}") from error
