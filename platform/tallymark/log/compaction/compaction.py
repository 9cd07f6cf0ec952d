"""Log compaction: of every key the last record stays (KIP-58, KIP-534; Kafka's log cleaner).

Reading order: this file, :mod:`~tallymark.log.compaction.plan` (which logs, which segments),
:mod:`~tallymark.log.compaction.filter` (which records), :mod:`~tallymark.log.compaction.batch`
(how a batch is written again), :mod:`~tallymark.log.compaction.swap` (how new segments take the
place of old ones, whatever crashes), :mod:`~tallymark.log.compaction.worker` (the process that does
this).

Two passes over closed segments::

    1. from the first dirty offset on: key -> last offset, as far as memory reaches
    2. from the start of the log up to there: copy what stays, some old segments to one new one

Both hold one batch at a time, and of that some thousand records; the first one may end in the
middle of a batch. At the end of its *time slice* a run pauses between two batches, so that several
logs can be compacted side by side: one large log does not hold up the others.

Nothing here changes the log that is in use: new segments are files ending in ``.cleaned``, which a
start removes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.log.compaction.filter import BatchFilter, Tally, open_batch
from tallymark.log.compaction.offset_map import OffsetMap
from tallymark.log.compaction.output import CleanedFiles
from tallymark.log.compaction.plan import ClosedSegment, group_segments
from tallymark.log.compaction.task import Cleaned, CompactionTask, Paused, Summary
from tallymark.log.compaction.throttle import Throttle, TimeSlice
from tallymark.log.compaction.transactions import Transactions, aborted_in
from tallymark.log.disk.files import Files
from tallymark.log.segments.scan import Window, header_at
from tallymark.protocol.records.batch import Batch, BatchHeader, read_header
from tallymark.protocol.schema import Buffer

_CHUNK: Final = 1 << 20


class Compaction:
    """One run. Iterating yields new segments one by one, each only after the one before was put in
    its place (so that it takes the disk space of one segment only), and :class:`Paused` at the end
    of a time slice; then :meth:`summary`.

    Raises ``OSError``, and CorruptRecordError where a batch is damaged: such a log must not be
    cleaned, since that would overwrite what could still be recovered.
    """

    def __init__(
        self,
        files: Files,
        task: CompactionTask,
        throttle: Throttle | None = None,
        time_slice: TimeSlice | None = None,
    ) -> None:
        self._files = files
        self._task = task
        self._throttle = throttle or Throttle(task.bytes_per_second)
        self._time_slice = time_slice or TimeSlice()
        self._tally = Tally()
        self._transactions = Transactions()
        self._until = task.first_dirty
        self._before = self._after = 0

    def __iter__(self) -> Generator[Cleaned | Paused, None, None]:
        task = self._task
        first = task.segments[0].base_offset if task.segments else 0
        self._transactions = Transactions(aborted_in(self._files, task.directory, first))
        offsets = yield from self._map_keys()
        keep = BatchFilter(
            offsets,
            self._until,
            task.producers,
            task.now_ms,
            task.delete_retention_ms,
            self._transactions,
            self._tally,
        )
        reached = [each for each in task.segments if each.base_offset < self._until]
        for group in group_segments(reached, task.segment_bytes):
            cleaned = yield from self._clean(group, keep)
            if cleaned is not None:
                yield cleaned

    def summary(self) -> Summary:
        """What was done, after the last segment."""
        tally = self._tally
        return Summary(
            self._until,
            tally.records,
            tally.removed,
            tally.undecodable,
            tally.too_large,
            tally.last_whole,
            self._before,
            self._after,
        )

    def _map_keys(self) -> Generator[Paused, None, OffsetMap]:
        """The first pass; it ends where the map is full."""
        offsets = OffsetMap(self._task.map_bytes)
        for segment in self._task.segments:
            if segment.end_offset <= self._task.first_dirty:
                continue
            for batch, _ in self._batches(segment):
                following = batch.header.next_offset
                if following <= self._task.first_dirty:
                    continue
                if self._transactions.hide(batch.header):
                    continue  # its records replace nothing
                self._until = _note_keys(batch, offsets, self._task.first_dirty)
                if self._until < following:
                    return offsets
                yield from self._rest()
            self._until = segment.end_offset
        return offsets

    def _clean(
        self, group: Sequence[ClosedSegment], keep: BatchFilter
    ) -> Generator[Paused, None, Cleaned | None]:
        """Write the new segment of a group; None where it would be the same as before."""
        task = self._task
        output = CleanedFiles(
            self._files, task.directory, group[0].base_offset, task.index_interval_bytes
        )
        try:
            changed = yield from self._copy(group, keep, output)
            if changed:
                output.finish()
            else:
                output.discard()
        except BaseException:
            output.discard()  # a full disk needs the room
            raise
        self._before += sum(segment.size for segment in group)
        self._after += output.size
        sources = tuple(segment.base_offset for segment in group)
        return Cleaned(sources, group[-1].end_offset, output.size) if changed else None

    def _copy(
        self, group: Sequence[ClosedSegment], keep: BatchFilter, output: CleanedFiles
    ) -> Generator[Paused, None, bool]:
        """Write what stays. Returns whether that differs from the one segment there was."""
        changed = len(group) > 1
        for segment in group:
            for batch, ends in self._batches(segment):
                data: Buffer = keep(batch, last=ends and segment is group[-1])
                changed = changed or data is not batch.data
                if data:
                    output.add(data)
                    self._note_marker(batch.header, data, output)
                    self._throttle.spend(len(data))
                yield from self._rest()
        return changed

    def _note_marker(self, header: BatchHeader, data: Buffer, output: CleanedFiles) -> None:
        """A marker of an abort stays, with its entry."""
        entry = self._transactions.entry_of(header) if header.is_control else None
        if entry is not None and read_header(data).is_control:
            output.add_aborted(entry)

    def _rest(self) -> Iterator[Paused]:
        if self._time_slice.is_over:
            yield Paused()

    def _batches(self, segment: ClosedSegment) -> Iterator[tuple[Batch, bool]]:
        """The batches of a segment, checked, each with whether it is the last one."""
        path = f"{self._task.directory}/{segment.base_offset:020d}.log"
        file = self._files.open(path, create=False)
        try:
            window = Window(file.handle, segment.size, _CHUNK)
            position = 0
            while position < segment.size:
                header = header_at(window, position)
                if header is None or position + header.size > segment.size:
                    raise CorruptRecordError(f"{path}: no batch at position {position}")
                batch = Batch(header, window.view(position, header.size))
                batch.check_crc()
                self._throttle.spend(header.size)
                position += header.size
                yield batch, position == segment.size
        finally:
            file.close()


def _note_keys(batch: Batch, offsets: OffsetMap, first_dirty: int) -> int:
    """Note the keys of a batch from that offset on; the offset behind the last record that the map
    had room for. A batch that does not decode to its end is not noted: it stays whatever the map
    holds, and so do the records that it would replace."""
    header = batch.header
    if header.is_control:
        return header.next_offset
    noted = offsets.spare()
    full: int | None = None
    try:
        for record in open_batch(batch).records():
            if record.key is None or record.offset < first_dirty or full is not None:
                continue
            if not noted.put(record.key, record.offset):
                full = record.offset
    except RemoteProtocolError:
        return header.next_offset
    offsets.update(noted)
    return header.next_offset if full is None else full
