"""The files of a new segment while a compaction writes it: ``.log.cleaned``, ``.index.cleaned``,
``.timeindex.cleaned``, ``.txnindex.cleaned`` (Kafka's names)."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from tallymark.log.disk.files import File, Files
from tallymark.log.producers.aborted import Aborted, encode_aborted
from tallymark.log.segments.indexes import SegmentIndexes
from tallymark.log.segments.swap_files import ABORTED, BESIDE, CLEANED, INDEXES
from tallymark.protocol.records.batch import read_header
from tallymark.protocol.schema import Buffer

_WRITE_BYTES: Final = 1 << 20


class CleanedFiles:
    """A new segment that begins at ``base_offset``, with its indexes; ``size`` bytes so far."""

    def __init__(self, files: Files, directory: str, base_offset: int, interval: int) -> None:
        self.size = 0
        self._files = files
        self._base_offset = base_offset
        self._stem = f"{directory}/{base_offset:020d}"
        self._indexes = SegmentIndexes(self._stem, interval)
        self._pending = bytearray()
        self._aborted: list[Aborted] = []
        self._log = self._create(".log")

    def add(self, data: Buffer) -> None:
        """Append a batch."""
        header = read_header(data)
        relative = header.last_offset - self._base_offset
        self._indexes.note(relative, self.size, len(data), header.max_timestamp)
        self._pending += data
        self.size += len(data)
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def add_aborted(self, entry: Aborted) -> None:
        """The marker of this aborted transaction was added."""
        self._aborted.append(entry)

    def finish(self) -> None:
        """On return everything is on the disk except for the names. The index of aborted
        transactions takes the place of an old one, also where no entry is left."""
        self._write()
        self._log.handle.sync()
        self._log.close()
        indexes = self._indexes
        # As the last entry the greatest timestamp, as in every finished segment.
        indexes.times.append(indexes.max_timestamp, indexes.max_relative)
        encoded = (indexes.offsets.encode(), indexes.times.encode())
        contents: dict[str, bytes] = dict(zip(INDEXES, encoded, strict=True))
        if self._aborted or self._files.exists(f"{self._stem}{ABORTED}"):
            contents[ABORTED] = encode_aborted(self._aborted)
        for suffix, content in contents.items():
            file = self._create(suffix)
            file.append(content)
            file.handle.sync()
            file.close()

    def discard(self) -> None:
        """The new segment is not wanted, or cannot be finished."""
        self._log.close()
        with suppress(OSError):
            for suffix in (".log", *BESIDE):
                self._files.remove(f"{self._stem}{suffix}{CLEANED}")

    def _write(self) -> None:
        self._log.append(self._pending)
        self._pending.clear()

    def _create(self, suffix: str) -> File:
        path = f"{self._stem}{suffix}{CLEANED}"
        self._files.remove(path)  # left by an earlier attempt
        return self._files.open(path)
