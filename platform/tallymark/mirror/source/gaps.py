"""Offsets that a source partition does not have, and what is known of the reason. Pure.

Offsets of consecutive messages need not be consecutive. What is between them is told by the
headers of the record batches they came in::

    control        a transaction marker stood there: no message at all
    aborted        messages of a transaction that was aborted
    corrupt        a batch that could not be read, and was to be left out then
    compaction     the batch that covers the offset lacks the record: a later one has its key
    unknown        no batch covers the offset. Compaction does that too, when no record of a batch
                   is left; on a topic that is not compacted nothing should.

Only what is remarkable is noted, so a healthy log costs nothing.
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
"""Not to be told: it has been."""
NOTES_KEPT: Final = 10_000
"""A partition; holes of what was noted earlier are told as ``unknown``."""


class OffsetGap(NamedTuple):
    """Offsets [``start``, ``end``) that the source does not have, and why."""

    start: int
    end: int
    reason: str


class GapNotes:
    """What was seen of fetched batches. The fetcher notes, the mirror asks: any thread."""

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
        """Offsets [``start``, ``end``) whose absence is told otherwise."""
        self._add(partition, start, end, REPORTED)

    def explain(self, partition: Partition, start: int, end: int) -> list[OffsetGap]:
        """The parts of the hole [``start``, ``end``), each with its reason; forgets what was noted
        before ``end``."""
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
        """The notes that begin before ``end``, in order; kept is what reaches beyond it."""
        with self._lock:
            notes = self._notes.get(partition, deque())
            taken = sorted(note for note in notes if note.start < end)
            kept = deque((note for note in notes if note.end > end), maxlen=NOTES_KEPT)
            if partition in self._notes:
                self._notes[partition] = kept
        return taken
