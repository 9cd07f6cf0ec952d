"""The log of one partition: appends at its end, reads from any offset, and deletes at its start.

::

    start_offset                 recovery_point        end_offset
    |  segment  |  segment  |  active segment              |
    ^ oldest kept           ^ on the disk for sure         ^ the next record

One owner (the partition of the broker) calls all methods in one thread, except those that say that
any thread may call them: reading and searching. Only these wait for the disk: :meth:`Log.open`,
:meth:`Log.flush`, :meth:`Log.start_epoch`, :meth:`Log.delete_records`, :meth:`Log.apply_retention`
and :meth:`Log.close`, and an append that begins a segment; flushes and deletions also come in steps
(:mod:`tallymark.log.upkeep.flush`, :mod:`tallymark.log.upkeep.deletion`). Every disk failure raises
KafkaError KAFKA_STORAGE_ERROR and takes the data directory offline
(:mod:`tallymark.log.disk.health`).
"""

from __future__ import annotations

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.copying import CopyingLog
from tallymark.log.disk.files import Data, Files, NoRoomError
from tallymark.log.disk.health import DiskHealth, guarded
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import key_of
from tallymark.log.loading.log_loader import LoadedLog, load_log
from tallymark.log.results import AppendInfo, LogSlice
from tallymark.log.upkeep.deletion import ExpiredSegments
from tallymark.log.upkeep.flush import DiskTurn, FlushJob
from tallymark.log.upkeep.roll_policy import must_flush, must_roll
from tallymark.log.validation.append_time import stamp_batch
from tallymark.log.validation.preparation import Prepared, prepare
from tallymark.protocol.records.batch import Batch, BatchHeader, place_batch, read_header
from tallymark.protocol.records.markers import Marker, marker_batch
from tallymark.protocol.topic_partition import EARLIEST, LATEST

__all__ = ["EARLIEST", "LATEST", "AppendInfo", "ExpiredSegments", "Log", "LogSlice"]


class Log(CopyingLog):
    """See the module. Made by :meth:`open`.

    ``name`` is the folder's, ``orders-0``; ``recovered`` says what an unclean start found.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        health: DiskHealth,
        starts: StartOffsets,
        loaded: LoadedLog,
    ) -> None:
        self.name = directory.rsplit("/", 1)[-1]
        self.directory = directory
        self.end_offset = loaded.segments.active.next_offset
        self.recovery_point = loaded.recovery_point
        self.recovered = loaded.recovered
        self._config = config
        self._files = files
        self._health = health
        self._key = key_of(self.name)
        self._starts = starts
        self._start = loaded.start_offset
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._snapshots = loaded.snapshots
        self._aborted = loaded.aborted
        self._producers = loaded.producers
        self._active_since_ms = loaded.active_since_ms
        self._unflushed_since_ms = loaded.unflushed_since_ms
        self._turn = DiskTurn()
        self._job: FlushJob | None = None
        self._closed = False
        self._shut = None
        self._unfinished = []
        self._half_cut = False
        self.cuts = 0
        self.corrupt_from = -1
        self.lacks_room = False
        """Whether the last append was refused because the disk is full."""
        self.save_recovery_points = lambda: None

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
        starts: StartOffsets | None = None,
    ) -> Log:
        """Open the log in a folder that exists; an empty folder is a new log.

        ``clean``: it was closed by :meth:`close`. Otherwise everything from ``recovery_point`` on
        is verified, and what is damaged is cut; :attr:`recovered` is the result. ``health`` and
        ``starts`` are the data directory's, default: of the folder above.
        """
        health = health or DiskHealth(directory)
        with guarded(health, f"open {directory}"):
            starts = starts or StartOffsets(files, directory.rpartition("/")[0])
            first = starts.get(key_of(directory.rsplit("/", 1)[-1]))
            loaded = load_log(files, directory, config, clean, now_ms, recovery_point, first)
            return cls(files, directory, config, health, starts, loaded)

    @property
    def config(self) -> LogConfig:
        """The log's settings; may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config

    # --- append

    def append(
        self, data: Data, now_ms: int, leader_epoch: int, *, control: bool = False
    ) -> AppendInfo:
        """Check and write the one batch that ``data`` is, all of it or nothing.

        Its offsets and ``leader_epoch`` are written into ``data`` itself where that is writable.
        For a duplicate of an idempotent producer the result has its first offsets. ``control``: it
        comes from a transaction coordinator. Raises KafkaError as
        :func:`~tallymark.log.validation.preparation.prepare` and :meth:`append_prepared` do.
        """
        self.check_usable()
        prepared = prepare(data, self._config, now_ms, self.name, control=control)
        return self.append_prepared(prepared, now_ms, leader_epoch)

    def append_prepared(self, prepared: Prepared, now_ms: int, leader_epoch: int) -> AppendInfo:
        """:meth:`append` of a batch that was prepared before, perhaps in another thread. Raises
        KafkaError: :attr:`Prepared.late`, the errors of
        :class:`~tallymark.log.producers.state.ProducerStates`, FENCED_LEADER_EPOCH,
        KAFKA_STORAGE_ERROR.
        """
        self.check_usable()
        header, data, late = prepared
        if header.producer_id >= 0 and not header.is_control:
            kept = self._producers.check(header)
            if kept is not None:
                return AppendInfo(kept.first_offset, kept.last_offset, True, header.max_timestamp)
        if late is not None:
            raise late
        try:
            written = self._write(header, data, now_ms, leader_epoch)
        except OSError as error:
            self.lacks_room = isinstance(error, NoRoomError)
            raise self._health.failed(error, f"append to {self.name}") from error
        except CorruptRecordError as error:
            raise KafkaError(CODES["CORRUPT_MESSAGE"], f"append to {self.name}: {error}") from error
        self.lacks_room = False
        return written

    def _write(self, header: BatchHeader, data: Data, now_ms: int, leader_epoch: int) -> AppendInfo:
        first = self.end_offset
        last = first + header.last_offset_delta
        segment = self._segments.active
        since = self._active_since_ms
        age = 0 if since is None else now_ms - since
        if must_roll(self._config, segment.size, age, len(data), last - segment.base_offset):
            segment = self._roll()
        if leader_epoch != self._epochs.noted:
            self._epochs.note(leader_epoch, first)
        if isinstance(data, bytes) or (isinstance(data, memoryview) and data.readonly):
            data = bytearray(data)
        place_batch(data, 0, first, leader_epoch)
        append_time, timestamp = -1, header.max_timestamp
        if self._config.log_append_time:
            append_time = timestamp = now_ms
            stamp_batch(data, now_ms)
        segment.append(data, last, timestamp)
        # Nothing may remember the batch before its bytes are written.
        if header.is_control:
            self._remember_marker(segment, Batch(header, memoryview(data)), first, now_ms)
        elif header.producer_id >= 0:
            self._producers.add(header, first, now_ms)
        self._grown(last + 1, now_ms)
        return AppendInfo(first, last, False, timestamp, append_time)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: Marker,
        now_ms: int,
        leader_epoch: int,
        *,
        version: int,
    ) -> AppendInfo | None:
        """Write the end of a transaction, for its coordinator; None for a repetition, which has its
        effect already. ``version``: the level of ``transaction.version`` with which it ends.

        Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (of
        :meth:`~tallymark.log.producers.state.ProducerStates.check_marker`), KAFKA_STORAGE_ERROR.
        """
        self.check_usable()
        data = marker_batch(marker, producer_id, producer_epoch, now_ms)
        if not self._producers.check_marker(read_header(data), marker, version):
            return None
        return self.append(data, now_ms, leader_epoch, control=True)

    # --- leader epochs

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, the offset at which it began), ascending in both; the last one may have no
        record."""
        return self._epochs.entries

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch the log has seen, -1 before the first."""
        return self._epochs.latest

    @property
    def next_epoch(self) -> int:
        """The smallest epoch that a leader may start: above every epoch that the log ever had, also
        those that a crash has cut off. If an epoch were used twice, readers could not detect the
        cut."""
        return self._epochs.highest + 1

    def start_epoch(self, epoch: int) -> None:
        """This broker leads in ``epoch`` from now on: the epoch begins at the end of the log.
        Durable on return. Raises FENCED_LEADER_EPOCH where the log is in a newer one."""
        self.check_usable()
        with guarded(self._health, f"start epoch {epoch} of {self.name}"):
            self._epochs.assign(epoch, self.end_offset)
        if self._config.flush_before_expose:
            self.flush()  # records that readers saw before a crash must stay visible

    def note_epoch(self, epoch: int) -> None:
        """:meth:`start_epoch` without the disk, for a leader whose epoch is stored elsewhere. The
        flush of the first record stores it; until then a crash may forget it, and records that it
        leaves have it in their batches."""
        self.check_usable()
        self._epochs.note(epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest epoch not above ``epoch``; (-1, -1) where that is not
        known (KIP-320). A reader beyond that offset has read records that were cut off."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``, -1 where that is not known. The disk is not
        read."""
        return self._epochs.epoch_of(offset)

    # --- flush

    def flush_due(self, now_ms: int) -> bool:
        """Whether the flush policy of the config asks for a flush."""
        since = self._unflushed_since_ms
        if since is None or self._job is not None or self._shut or self.is_offline:
            return False
        return must_flush(self._config, self.end_offset - self.recovery_point, now_ms - since)

    def begin_flush(self) -> FlushJob | None:
        """The first of the three steps of :mod:`tallymark.log.upkeep.flush`. None where there is
        nothing to do, or a flush is under way."""
        if self._job is None and self.recovery_point < self.end_offset and not self._shut:
            self._job = self._new_job()
            return self._job
        return None

    def finish_flush(self, job: FlushJob) -> None:
        """The last step. Raises KAFKA_STORAGE_ERROR where the syncs failed."""
        if self._job is job:
            self._job = None
        if self._closed or job.void:
            return
        if job.done:
            self.recovery_point = max(self.recovery_point, job.offset)
            return
        self._unflushed_since_ms = job.since_ms
        if job.error is not None:
            raise self._health.failed(job.error, f"flush {self.name}") from job.error

    def flush(self) -> None:
        """Return when everything is on the disk."""
        self.check_usable()
        if self.recovery_point < self.end_offset:
            job = self._new_job()
            job.run()
            self.finish_flush(job)

    def _new_job(self) -> FlushJob:
        self.check_usable()
        with guarded(self._health, f"flush {self.name}"):
            segments = self._segments.from_offset(self.recovery_point)
            work = [(segment, segment.indexes.mark()) for segment in segments]
        since, self._unflushed_since_ms = self._unflushed_since_ms, None
        return FlushJob(
            self._files, self.directory, self._turn, work, self.end_offset, since, self._save_notes
        )

    def _save_notes(self) -> None:
        """What is noted beside the segments, durably."""
        self._aborted.save()
        self._epochs.save()

    # --- end

    def release_files(self) -> int:
        """Close the files of all segments that are wholly on the disk, until they are needed.
        Returns how many. Any thread may call it."""
        flushed = self.recovery_point
        return sum(each.release_files() for each in self._segments if each.next_offset <= flushed)

    def close(self) -> None:
        """Flush, write the producer snapshot, close the files. Readers keep the files that they
        have open."""
        if self._closed:
            return
        try:
            self.flush()
            with guarded(self._health, f"close {self.name}"):
                bases = {each.base_offset for each in self._segments}
                self._snapshots.write(self.end_offset, self._producers, bases)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files without writing anything: the log was deleted, or its disk failed."""
        self._closed = True
        self._shut = "closed"
        self._aborted.close()
        for segment in self._segments:
            segment.close()
