"""Both sparse indexes of a segment: when they get an entry, and how they are written to the
disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tallymark.log.disk.files import Files, Handle, noticing_no_room, write_file
from tallymark.log.segments.offset_index import IndexDamagedError, OffsetIndex
from tallymark.log.segments.time_index import TimeIndex
from tallymark.protocol.records.batch import BatchHeader

_REWRITE: Final = -1


class IndexMark(NamedTuple):
    """How many entries of both indexes are to be saved."""

    offsets: int
    times: int


class SegmentIndexes:
    """The indexes in memory, and how much of each is in its file.

    ``stem`` is the segment's path without ``.log``. The greatest timestamp of the segment is
    ``max_timestamp`` (-1: none); it is in the batch that ends at ``max_relative``.
    """

    __slots__ = (
        "_interval",
        "_saved_offsets",
        "_saved_times",
        "_since_entry",
        "_stem",
        "max_relative",
        "max_timestamp",
        "offsets",
        "times",
    )

    def __init__(self, stem: str, interval: int) -> None:
        self._stem = stem
        self._interval = interval
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.max_timestamp = -1
        self.max_relative = 0
        self._since_entry = 0
        self._saved_offsets = _REWRITE
        self._saved_times = _REWRITE

    @classmethod
    def load(
        cls, files: Files, stem: str, interval: int, log_size: int, ending: str = ""
    ) -> SegmentIndexes:
        """Read both files, named with ``ending`` (a compaction's are). IndexDamagedError where one
        is missing or cannot be right."""
        indexes = cls(stem, interval)
        try:
            indexes.offsets = OffsetIndex.decode(files.read(f"{stem}.index{ending}"), log_size)
            indexes.times = TimeIndex.decode(files.read(f"{stem}.timeindex{ending}"))
        except FileNotFoundError as error:
            raise IndexDamagedError(str(error)) from error
        last_position = indexes.offsets.entry(-1)[1] if len(indexes.offsets) else 0
        indexes._since_entry = log_size - last_position
        if last := indexes.times.last():
            indexes.max_timestamp, indexes.max_relative = last
        elif log_size:
            raise IndexDamagedError("no timestamp for a segment that has records")
        indexes._saved_offsets = len(indexes.offsets)
        indexes._saved_times = len(indexes.times)
        return indexes

    def before(self, position: int, relative: int) -> tuple[SegmentIndexes, int]:
        """A copy for a log file that ends at ``position``, before the relative offset, of which no
        file is saved. The batches from the returned position on are to be looked at by
        :meth:`seen`: their times may be in no entry."""
        copy = SegmentIndexes(self._stem, self._interval)
        copy.offsets, copy.times = self.offsets.before(position), self.times.before(relative)
        if last := copy.times.last():
            copy.max_timestamp, copy.max_relative = last
        start = copy.offsets.entry(-1)[1] if len(copy.offsets) else 0
        copy._since_entry = position - start
        return copy, start

    def seen(self, last_relative: int, max_timestamp: int) -> None:
        """A batch that is in the file already."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_relative = last_relative

    def note(self, last_relative: int, position: int, size: int, max_timestamp: int) -> None:
        """A batch of ``size`` bytes is at ``position`` now and ends at ``last_relative``."""
        self.seen(last_relative, max_timestamp)
        if self._since_entry > self._interval:
            self.offsets.append(last_relative, position)
            self.times.append(self.max_timestamp, self.max_relative)
            self._since_entry = 0
        self._since_entry += size

    def note_batches(self, headers: Sequence[BatchHeader], base: int, position: int) -> int:
        """:meth:`note` of batches that stand one after the other from ``position`` on, in a segment
        that begins at offset ``base``; returns the position behind them."""
        note = self.note
        for header in headers:
            note(header.last_offset - base, position, header.size, header.max_timestamp)
            position += header.size
        return position

    def mark(self) -> IndexMark:
        """How much :meth:`save` is to write. The greatest timestamp becomes the last entry of the
        time index, so that the file always has it for what was flushed. For the owner's thread."""
        if self._since_entry:  # else there is no batch yet
            self.times.append(self.max_timestamp, self.max_relative)
        return IndexMark(len(self.offsets), len(self.times))

    def settle(self, files: Files) -> None:
        """After the indexes were built again: write the files whose content differs, durably."""
        self.mark()
        self._saved_offsets, first = _settle(files, self._stem + ".index", self.offsets)
        self._saved_times, second = _settle(files, self._stem + ".timeindex", self.times)
        handles = [handle for handle in (first, second) if handle is not None]
        for handle in handles:
            handle.sync()
        if handles:
            files.sync_dir(self._stem.rpartition("/")[0])

    def save(self, files: Files, mark: IndexMark) -> list[Handle]:
        """Write what is not in the files yet, up to ``mark``. Any thread may call it, one at a
        time.

        Returns the handles to sync.
        """
        try:
            offsets = _save(
                files, self._stem + ".index", self.offsets, self._saved_offsets, mark[0]
            )
            times = _save(files, self._stem + ".timeindex", self.times, self._saved_times, mark[1])
        except OSError:
            # The file may end with half an entry now, and what was written is not synced.
            self._saved_offsets = self._saved_times = _REWRITE
            raise
        self._saved_offsets = max(self._saved_offsets, mark.offsets)
        self._saved_times = max(self._saved_times, mark.times)
        return [handle for handle in (offsets, times) if handle is not None]


def _save(
    files: Files, path: str, index: OffsetIndex | TimeIndex, saved: int, end: int
) -> Handle | None:
    if saved == _REWRITE:
        return write_file(files, path, index.encode(0, end), durable=False)
    if saved >= end:
        return None
    with noticing_no_room():
        file = files.open(path)
        file.append(index.encode(saved, end))
    file.close()
    return file.handle


def _settle(files: Files, path: str, index: OffsetIndex | TimeIndex) -> tuple[int, Handle | None]:
    """(entries saved, handle to sync). An empty index needs no file before the first flush."""
    data = index.encode()
    try:
        if files.read(path) == data:
            return len(index), None
    except FileNotFoundError:
        if not data:
            return _REWRITE, None
    return len(index), write_file(files, path, data, durable=False)
