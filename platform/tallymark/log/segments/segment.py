"""One segment of a log: ``%020d.log``, batches one after the other as they came from the wire,
named by the offset it begins at, with its two indexes beside it::

    00000000000000000000.log         batches with the offsets 0 .. 9999
    00000000000000000000.index       offset -> position
    00000000000000000000.timeindex   timestamp -> offset; .txnindex: transactions aborted in it
    00000000000000010000.log         10000 .. ; the last segment is the one appended to

One owner appends; any thread may read and search. What a segment returns (:class:`FileSlice`,
handles to sync) may be used in any thread, also after the segment was removed. A removed segment in
an older list raises :class:`SegmentGoneError`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tallymark.errors import CorruptRecordError
from tallymark.log.disk.files import Data, File, Files, FileSlice, Handle, noticing_no_room
from tallymark.log.segments.indexes import IndexMark, SegmentIndexes
from tallymark.log.segments.offset_index import IndexDamagedError
from tallymark.log.segments.scan import BatchPlace, places, walk
from tallymark.protocol.records.batch import BatchHeader

log = logging.getLogger(__name__)


class SegmentGoneError(Exception):
    """The segment is no longer part of its log: take the list of segments again."""


class ColdSegmentError(Exception):
    """The indexes of the segment are not in memory, and the reader did not want to wait."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Whole batches of a segment; the batch after them begins at ``next_offset`` or later."""

    data: FileSlice
    next_offset: int


class Segment:
    """``size`` bytes of whole batches, offsets from ``base_offset`` to below ``next_offset``."""

    __slots__ = (
        "_end",
        "_file",
        "_files",
        "_indexes",
        "_interval",
        "_loading",
        "_rebuilt",
        "base_offset",
        "path",
        "removed",
        "stem",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, interval: int) -> None:
        self.base_offset = base_offset
        self.stem = f"{directory}/{base_offset:020d}"
        self.path = self.stem + ".log"
        self._end = (0, base_offset)  # one value: a reader in another thread sees both or neither
        self._files = files
        self._interval = interval
        self._file: File | None = None
        self._indexes: SegmentIndexes | None = None
        self._loading = threading.Lock()
        self._rebuilt = False
        self.removed = False

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int, interval: int) -> Segment:
        """A new, empty segment. Its name is durable once the folder was synced."""
        segment = cls(files, directory, base_offset, interval)
        with noticing_no_room():
            segment._file = files.open(segment.path)
        segment._file.truncate(0)
        segment._indexes = SegmentIndexes(segment.stem, interval)
        return segment

    @classmethod
    def open(cls, files: Files, directory: str, base_offset: int, interval: int) -> Segment:
        """An existing segment. The caller finds its end and sets it: :meth:`end_at`."""
        segment = cls(files, directory, base_offset, interval)
        segment._end = (files.size(segment.path), base_offset)
        if segment.size == 0:
            segment._indexes = SegmentIndexes(segment.stem, interval)
        return segment

    @classmethod
    def adopt(
        cls,
        files: Files,
        directory: str,
        base_offset: int,
        interval: int,
        *,
        suffix: str,
        size: int,
        next_offset: int,
    ) -> Segment:
        """A finished segment whose files still have ``suffix`` behind their names: they may be
        renamed. CorruptRecordError: the log has not ``size`` bytes, or an index is bad."""
        segment = cls(files, directory, base_offset, interval)
        segment._file = files.open(f"{segment.path}{suffix}", create=False)
        found = segment._file.size()
        if found != size:
            raise CorruptRecordError(f"{segment.path}{suffix} has {found} bytes, not {size}")
        segment._end = (size, next_offset)
        try:
            segment._indexes = SegmentIndexes.load(files, segment.stem, interval, size, suffix)
        except IndexDamagedError as error:
            raise CorruptRecordError(f"{segment.stem}.index{suffix}: {error}") from error
        return segment

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return self._end[0]

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self._end[1]

    def end_at(self, next_offset: int) -> None:
        """The last record of the file is the one before ``next_offset``."""
        self._end = (self.size, next_offset)

    @property
    def file(self) -> File:
        """The log file, opened at the first use: most old segments are never read. Raises
        SegmentGoneError, and CorruptRecordError where the file has disappeared."""
        file = self._file
        if file is None:
            if self.removed:
                raise SegmentGoneError(self.path)
            try:
                file = self._files.open(self.path, create=False)
            except FileNotFoundError as error:
                if self.removed:
                    raise SegmentGoneError(self.path) from None
                raise CorruptRecordError(f"{self.path} is gone") from error
            self._file = file
            if self.removed:  # compaction may have put another file under this name
                raise SegmentGoneError(self.path)
        return file

    @property
    def is_warm(self) -> bool:
        """Whether the indexes are in memory."""
        return self._indexes is not None

    @property
    def indexes(self) -> SegmentIndexes:
        """The indexes, loaded at the first use, and built again where they are wrong."""
        indexes = self._indexes
        if indexes is None:
            with self._loading:
                indexes = self._indexes
                if indexes is None:
                    indexes = self._load_or_build()
                    if self.removed:
                        raise SegmentGoneError(self.path)
                    self._indexes = indexes
        return indexes

    def _load_or_build(self) -> SegmentIndexes:
        try:
            return self._load_indexes()
        except IndexDamagedError as error:
            log.warning("%s: building the indexes again: %s", self.path, error)
            indexes = self._built(self.headers())[0]
            indexes.settle(self._files)  # no recovery will look at this segment again
            return indexes

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of the segment's records in ms, -1 where there is none."""
        return self.indexes.max_timestamp

    # --- append

    def append(self, data: Data, last_offset: int, max_timestamp: int) -> None:
        """Write one batch, whose offsets are set: all of it or, with an ``OSError``, nothing."""
        position = self._write(data)
        self.indexes.note(last_offset - self.base_offset, position, len(data), max_timestamp)
        self._end = (position + len(data), last_offset + 1)

    def append_batches(self, data: Data, headers: Sequence[BatchHeader]) -> None:
        """:meth:`append` of several batches that have their offsets: ``data`` is these, whole and
        one after the other. All of them or, with an ``OSError``, nothing."""
        position = self._write(data)
        end = self.indexes.note_batches(headers, self.base_offset, position)
        self._end = (end, headers[-1].next_offset)

    def _write(self, data: Data) -> int:
        file, position = self.file, self.size
        try:
            file.append(data)
        except OSError:
            file.truncate(position)
            with noticing_no_room():
                raise
        return position

    # --- read

    def read(self, offset: int, max_bytes: int, min_one: bool, until: int) -> SegmentSlice | None:
        """Whole batches from the one that holds ``offset`` (or the first after it) on, at most
        ``max_bytes``; the first one regardless of its size with ``min_one``; none from ``until``
        on, where a batch begins. None where the segment has nothing that is asked for."""
        place = self.find(offset)
        if place is None or place.base_offset >= until:
            return None
        end, next_offset = self._last_whole(place, place.position + max_bytes)
        if next_offset > until and (stop := self.find(until)) is not None:
            end, next_offset = min(end, stop.position), min(next_offset, until)
        if end == place.position and min_one:
            end, next_offset = place.position + place.size, place.last_offset + 1
        data = FileSlice(self.file.handle, place.position, end - place.position)
        return SegmentSlice(data, next_offset)

    def find(self, offset: int) -> BatchPlace | None:
        """The first batch that ends at ``offset`` or later. A wrong index is built again; raises
        CorruptRecordError where the log itself is damaged."""
        try:
            return self._find(offset)
        except CorruptRecordError as error:
            if self.removed:  # the file was cut
                raise SegmentGoneError(self.path) from None
            if self._rebuilt:
                raise
            log.warning("%s: building the indexes again: %s", self.path, error)
            self.build_indexes()
            return self._find(offset)

    def places_from(self, offset: int) -> Iterable[BatchPlace]:
        """The batches from the first that ends at ``offset`` or later."""
        place = self.find(offset)
        return self._places(place.position) if place else ()

    def headers(self, position: int = 0) -> Iterable[tuple[int, BatchHeader]]:
        """(position, header) of the batches from ``position`` on."""
        return walk(self.file.handle, position, self.size)

    def pread(self, place: BatchPlace) -> bytes:
        """The bytes of a batch."""
        return self.file.pread(place.size, place.position)

    # --- housekeeping

    def build_indexes(
        self, batches: Iterable[tuple[int, BatchHeader]] | None = None
    ) -> tuple[int, int]:
        """Build the indexes from these batches (default: all). Returns where the last one ends."""
        indexes, end, next_offset = self._built(self.headers() if batches is None else batches)
        self._indexes = indexes
        return end, next_offset

    def _built(self, batches: Iterable[tuple[int, BatchHeader]]) -> tuple[SegmentIndexes, int, int]:
        self._rebuilt = True
        indexes = SegmentIndexes(self.stem, self._interval)
        end, next_offset = 0, self.base_offset
        for position, header in batches:
            relative = header.last_offset - self.base_offset
            indexes.note(relative, position, header.size, header.max_timestamp)
            end = position + header.size
            next_offset = header.next_offset
        return indexes, end, next_offset

    def settle_indexes(self) -> None:
        """After :meth:`build_indexes`: write the files of the indexes, durably."""
        self.indexes.settle(self._files)

    def truncate(self, size: int) -> None:
        """Cut the file at a position found by :meth:`build_indexes`, durably."""
        self.file.truncate(size)
        self.file.handle.sync()
        self._end = (size, self.next_offset)

    def save(self, mark: IndexMark) -> list[Handle]:
        """Bring the indexes up to ``mark`` in their files; returns the handles to sync for the
        segment to be durable up to there. Any thread may call it, one at a time."""
        return [self.file.handle, *self.indexes.save(self._files, mark)]

    def remove(self) -> None:
        """Delete the files, the log first: a start removes indexes without a log."""
        self.removed = True
        self.close()
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            self._files.remove(self.stem + suffix)

    def release_files(self) -> bool:
        """Close the file when its readers have finished; the next use opens it. Returns whether it
        was open. Any thread may call it where all of the segment is synced: the kernel reports a
        failed sync only to open files."""
        had, self._file = self._file is not None, None
        return had

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- inside

    def _load_indexes(self) -> SegmentIndexes:
        """The indexes of the files. IndexDamagedError where their last entry cannot be right."""
        indexes = SegmentIndexes.load(self._files, self.stem, self._interval, self.size)
        relative, position = indexes.offsets.entry(-1) if len(indexes.offsets) else (-1, 0)
        try:
            for place in self._places(position):
                if relative >= 0 and place.last_offset - self.base_offset != relative:
                    raise IndexDamagedError("its last entry points to another batch")
                if relative >= 0:
                    break
                if place.position > self._interval:
                    raise IndexDamagedError(f"no entry for {self.size} bytes")
        except CorruptRecordError as error:
            raise IndexDamagedError(f"its last entry points nowhere: {error}") from error
        return indexes

    def _find(self, offset: int) -> BatchPlace | None:
        position = self.indexes.offsets.lookup(offset - self.base_offset)
        for place in self._places(position):
            if place.last_offset >= offset:
                return place
        return None

    def _places(self, position: int) -> Iterable[BatchPlace]:
        return places(self.file.handle, position, self.size, self.base_offset)

    def _last_whole(self, place: BatchPlace, limit: int) -> tuple[int, int]:
        """(position, offset) after the last batch that ends at or before position ``limit``."""
        end, next_offset = self._end
        if limit >= end:
            return end, next_offset
        start = max(place.position, self.indexes.offsets.position_before(limit))
        for batch in self._places(start):
            if batch.position + batch.size > limit:
                return batch.position, batch.base_offset
        return end, next_offset
