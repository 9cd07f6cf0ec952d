"""Log compaction: of every key the last record stays (KIP-58, KIP-534; Kafka's log cleaner).

Reading order: this file, :mod:`~tallymark.log.compaction_plan` (which logs, which segments),
:mod:`~tallymark.log.compaction_filter` (which records), :mod:`~tallymark.log.compaction_batch`
(how a batch is written again), :mod:`~tallymark.log.compaction_swap` (how new segments take the
place of old ones, whatever crashes), :mod:`~tallymark.log.compaction_worker` (the process that does
this).

Two passes over closed segments::

    1. from the first dirty offset on: key -> last offset, as far as memory reaches
    2. from the start of the log up to there: copy what stays, some old segments to one new one

Nothing here touches the log that is in use: new segments are files ending in ``.cleaned``, which a
start sweeps away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.log.compaction_filter import BatchFilter, Tally
from tallymark.log.compaction_map import OffsetMap
from tallymark.log.compaction_output import CleanedFiles
from tallymark.log.compaction_plan import ClosedSegment, group_segments
from tallymark.log.compaction_task import Cleaned, CompactionTask, Summary
from tallymark.log.compaction_throttle import Throttle
from tallymark.log.files import Files
from tallymark.log.scan import Window, header_at
from tallymark.protocol.records import Batch
from tallymark.protocol.schema import Buffer

_CHUNK: Final = 1 << 20


class Compaction:
    """One run. Iterating yields new segments one by one, each only after the one before was put in
    its place (so that no more room is taken than one segment's); then :meth:`summary`.

    Raises ``OSError``, and CorruptRecordError where a batch is damaged: such a log must not be
    cleaned, or the damage would be written over what might still be saved.
    """

    def __init__(
        self, files: Files, task: CompactionTask, throttle: Throttle | None = None
    ) -> None:
        self._files = files
        self._task = task
        self._throttle = throttle or Throttle(task.bytes_per_second)
        self._tally = Tally()
        self._until = task.first_dirty
        self._before = self._after = 0

    def __iter__(self) -> Iterator[Cleaned]:
        task = self._task
        offsets = self._map_keys()
        keep = BatchFilter(
            offsets, self._until, task.producers, task.now_ms, task.delete_retention_ms, self._tally
        )
        reached = [each for each in task.segments if each.base_offset < self._until]
        for group in group_segments(reached, task.segment_bytes):
            cleaned = self._clean(group, keep)
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
            self._before,
            self._after,
        )

    def _map_keys(self) -> OffsetMap:
        """The first pass; it ends where the map is full."""
        offsets = OffsetMap(self._task.map_bytes)
        for segment in self._task.segments:
            if segment.end_offset <= self._task.first_dirty:
                continue
            for batch, _ in self._batches(segment):
                header = batch.header
                if header.next_offset <= self._task.first_dirty:
                    continue
                if not offsets.has_room(header.record_count):
                    return offsets
                _note_keys(batch, offsets)
                self._until = header.next_offset
            self._until = segment.end_offset
        return offsets

    def _clean(self, group: Sequence[ClosedSegment], keep: BatchFilter) -> Cleaned | None:
        """Write the new segment of a group; None where it would be the same as before."""
        task = self._task
        output = CleanedFiles(
            self._files, task.directory, group[0].base_offset, task.index_interval_bytes
        )
        try:
            changed = self._copy(group, keep, output)
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
    ) -> bool:
        """Write what stays; whether that is anything else than the one segment there was."""
        changed = len(group) > 1
        for segment in group:
            for batch, ends in self._batches(segment):
                data: Buffer = keep(batch, last=ends and segment is group[-1])
                changed = changed or data is not batch.data
                if data:
                    output.add(data)
                    self._throttle.spend(len(data))
        return changed

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


def _note_keys(batch: Batch, offsets: OffsetMap) -> None:
    if batch.header.is_control:
        return
    try:
        records = batch.records()
    except RemoteProtocolError:
        return  # such a batch stays whatever the map says
    for record in records:
        if record.key is not None:
            offsets.put(record.key, record.offset)
