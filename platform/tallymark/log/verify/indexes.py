"""Compares the index files of a segment with its batches, entry by entry. Pure except for reading
the files."""

from __future__ import annotations

from collections.abc import Iterator

from tallymark.log.disk.files import Files
from tallymark.log.segments.offset_index import IndexDamagedError, OffsetIndex
from tallymark.log.segments.time_index import TimeIndex
from tallymark.protocol.records.batch import BatchHeader

_NO_END = 2**62


class IndexCheck:
    """The indexes of the segment ``stem``. ``missing`` names files that are not there: a start
    builds them again."""

    def __init__(self, files: Files, stem: str, base_offset: int) -> None:
        self._base = base_offset
        self.problems: list[str] = []
        self.missing: list[str] = []
        self._offsets, self._times = OffsetIndex(), TimeIndex()
        self._load(files, stem)
        self._offset_at = self._time_at = 0
        self._greatest = -1

    def _load(self, files: Files, stem: str) -> None:
        for suffix in ("index", "timeindex"):
            try:
                data = files.read(f"{stem}.{suffix}")
                if suffix == "index":
                    self._offsets = OffsetIndex.decode(data, _NO_END)
                else:
                    self._times = TimeIndex.decode(data)
            except FileNotFoundError:
                self.missing.append(suffix)
            except IndexDamagedError as error:
                self.problems.append(f".{suffix}: {error}")

    def note(self, position: int, header: BatchHeader) -> None:
        """The next batch, at ``position``."""
        relative = header.last_offset - self._base
        while self._offset_at < len(self._offsets):
            entry = self._offsets.entry(self._offset_at)
            if entry[1] > position:
                break
            if entry != (relative, position):
                self.problems.append(f".index: entry {entry} points to no batch")
            self._offset_at += 1
        if header.max_timestamp > self._greatest:
            self._greatest = header.max_timestamp
            while (time := self._next_time()) is not None and time[0] <= self._greatest:
                if time != (self._greatest, relative) and time[0] >= 0:
                    self.problems.append(f".timeindex: entry {time} is no greatest timestamp")
                self._time_at += 1

    def end(self) -> Iterator[str]:
        """There are no more batches: what is wrong."""
        yield from self.problems
        if self._offset_at < len(self._offsets):
            yield f".index: entry {self._offsets.entry(self._offset_at)} points behind the end"
        if (entry := self._next_time()) is not None and entry[0] >= 0:
            yield f".timeindex: entry {entry} is of no batch"

    def _next_time(self) -> tuple[int, int] | None:
        return self._times.entry(self._time_at) if self._time_at < len(self._times) else None
