"""Offsets that a source partition does not have, and the reason as far as it is known. Pure.

Offsets of consecutive messages need not be consecutive. The headers of the record batches say what
is between them::

    control        a transaction marker: never a message
    aborted        messages of a transaction that was aborted
    corrupt        a batch that could not be read and was left out
    compaction     the batch that covers the offset lacks the record: a later one has its key
    unknown        no batch covers the offset. Compaction does that too, when no record of a batch
                   is left; on a topic that is not compacted nothing should.

Only gaps are noted, so a log without gaps costs nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from tallymark.mirror.progress import Partition
from tallymark.protocol.records.batch import BatchHeader

CONTROL: Final = "control"
ABORTED: Final = "aborted"
CORRUPT: Final = "corrupt"
COMPACTION: Final = "compaction"
UNKNOWN: Final = "unknown"
REPORTED: Final = ""
"""The gap was reported already."""
NOTES_KEPT: Final = 10_000
"""At most so many notes a partition; gaps whose note was dropped are reported as ``unknown``."""


class OffsetGap(NamedTuple):
    """Offsets [``start``, ``end``) that the source does not have, and why."""

    start: int
    end: int
    reason: str


class GapNotes:
    """Notes about fetched batches. The fetcher writes them, the mirror reads them: any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[Partition, deque[OffsetGap]] = {}

    def note(self, partition: Partition, headers: Iterable[BatchHeader]) -> None:
        """Batches that were fetched."""
        for header in headers:
            if header.is_control:
                self._add(partition, header.base_offset, header.next_offset, CONTROL)
            elif header.record_count <= header.last_offset_delta:
                self._add(partition, header.base_offset, header.next_offset, COMPACTION)

    def aborted(self, partition: Partition, headers: Iterable[BatchHeader]) -> None:
        """Batches that were fetched and left out, since their transaction was aborted."""
        for header in headers:
            self._add(partition, header.base_offset, header.next_offset, ABORTED)

    def corrupt(self, partition: Partition, start: int, end: int) -> None:
        """Offsets [``start``, ``end``) cannot be read, and are left out."""
        self._add(partition, start, end, CORRUPT)

    def reported(self, partition: Partition, start: int, end: int) -> None:
        """Offsets [``start``, ``end``) whose absence is reported in another way."""
        self._add(partition, start, end, REPORTED)

    def explain(self, partition: Partition, start: int, end: int) -> list[OffsetGap]:
        """The parts of the gap [``start``, ``end``), each with its reason. Drops the notes before
        ``end``."""
        found: list[OffsetGap] = []
        at = start
        for note in self._take(partition, end):
            first, last = max(note.start, at), min(note.end, end)
            if first >= last:
                continue
            if at < first:
                found.append(OffsetGap(at, first, UNKNOWN))
            if note.reason != REPORTED:
                found.append(OffsetGap(first, last, note.reason))
            at = last
        if at < end:
            found.append(OffsetGap(at, end, UNKNOWN))
        return found

    def forget(self) -> None:
        """The partitions were given up."""
        with self._lock:
            self._notes.clear()

    def _add(self, partition: Partition, start: int, end: int, reason: str) -> None:
        with self._lock:
            notes = self._notes.setdefault(partition, deque(maxlen=NOTES_KEPT))
            notes.append(OffsetGap(start, end, reason))

    def _take(self, partition: Partition, end: int) -> list[OffsetGap]:
        """The notes that begin before ``end``, in order. Those that reach beyond it are kept."""
        with self._lock:
            notes = self._notes.get(partition, deque())
            taken = sorted(note for note in notes if note.start < end)
            kept = deque((note for note in notes if note.end > end), maxlen=NOTES_KEPT)
            if partition in self._notes:
                self._notes[partition] = kept
        return taken
