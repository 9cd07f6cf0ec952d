"""Which transactions of a log were aborted: a file beside each segment that has such a marker.

``%020d.txnindex``, in Kafka's format, big-endian; 34 bytes for each abort marker of the segment, in
the order of the log::

    version int16 = 0 | producer id int64 | first offset int64 | last offset int64
    | last stable offset int64

``last offset`` is the marker's; the transaction may begin in an earlier segment. A reader that
stops at an offset needs no entry behind the first one whose last stable offset has reached that:
all transactions that begin before have ended by then.

An entry is written with its marker and synced with the segment's flush. A recovery writes the
entries of the segments again that it verifies (:mod:`tallymark.log.producers.recovery`).

A segment may have a million of them. So they stay bytes in memory, of the segments that were read,
and one is decoded where a reader needs it: a binary search finds the first.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, overload

from tallymark.log.disk.files import File, Files, noticing_no_room, write_file
from tallymark.log.producers.transactions import EndedTransaction
from tallymark.log.segments.segment import ColdSegmentError

SUFFIX: Final = ".txnindex"
_ENTRY: Final = struct.Struct(">hqqqq")
_ENTRY_VERSION: Final = struct.Struct(">h")
_VERSION: Final = 0
_last_offset: Final = attrgetter("last_offset")


class Aborted(NamedTuple):
    """One aborted transaction: records of the producer from the first offset on, up to the marker
    at the last offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted(ended: EndedTransaction) -> Aborted:
    """The entry of a transaction that was aborted."""
    return Aborted(
        ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
    )


def encode_aborted(entries: Iterable[Aborted]) -> bytes:
    """The bytes of an index file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def decode_aborted(data: bytes) -> tuple[Aborted, ...]:
    """The entries of an index file, without those at its end that cannot be right: a crash may have
    torn the last ones."""
    return tuple(AbortedEntries(data))


class AbortedEntries(Sequence[Aborted]):
    """The entries of one index file, decoded when they are asked for. As :func:`decode_aborted`.
    One thread at a time adds, others may read."""

    __slots__ = ("_added", "_count", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._added = bytearray()
        self._count = len(data) // _ENTRY.size
        while self._count and not self._can_be_last(self._count - 1):
            self._count -= 1

    def _can_be_last(self, at: int) -> bool:
        (version,) = _ENTRY_VERSION.unpack_from(self._data, at * _ENTRY.size)
        entry = self[at]
        after = self[at - 1].last_offset if at else -1
        return version == _VERSION and after < entry.last_offset >= entry.first_offset >= 0

    def append(self, entry: Aborted) -> None:
        """Its marker is behind those of all others."""
        self._added += _ENTRY.pack(_VERSION, *entry)

    def __len__(self) -> int:
        return self._count + len(self._added) // _ENTRY.size

    @overload
    def __getitem__(self, at: int) -> Aborted: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Aborted, ...]: ...
    def __getitem__(self, at: int | slice) -> Aborted | tuple[Aborted, ...]:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        place = range(len(self))[at]
        if place < self._count:
            _, *fields = _ENTRY.unpack_from(self._data, place * _ENTRY.size)
        else:
            _, *fields = _ENTRY.unpack_from(self._added, (place - self._count) * _ENTRY.size)
        return Aborted(*fields)


class AbortedIndexes:
    """The index files of one log, by the base offset of their segment; read when they are needed.
    Any thread may read; one at a time writes."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._known: dict[int, AbortedEntries] = {}
        self._unsynced: dict[int, File] = {}
        self._lock = threading.Lock()

    def add(self, base_offset: int, ended: EndedTransaction) -> None:
        """An abort marker was written to the segment."""
        entry = aborted(ended)
        with self._lock:
            file = self._unsynced.get(base_offset)
            if file is None:
                with noticing_no_room():
                    file = self._unsynced[base_offset] = self._files.open(self._path(base_offset))
            file.append(encode_aborted((entry,)))
            if base_offset in self._known:
                self._known[base_offset].append(entry)

    def of(self, base_offset: int) -> AbortedEntries:
        """The entries of a segment, none where it has no file; markers that are written later are
        added."""
        known = self._known.get(base_offset)
        if known is None:
            with self._lock:
                known = self._known.get(base_offset)
                if known is None:
                    known = self._known[base_offset] = self._read(base_offset)
        return known

    def before(
        self, bases: Iterable[int], offset: int, until: int, *, wait: bool = True
    ) -> list[Aborted]:
        """What a reader has to leave out of the records from ``offset`` to below ``until``.
        ``bases``: the segments from the one that holds ``offset`` on; those behind the last
        transaction that matters are not looked at. Without ``wait`` ColdSegmentError where the disk
        is needed."""
        found: list[Aborted] = []
        for base in bases:
            if not wait and base not in self._known:
                raise ColdSegmentError(self._path(base))
            entries = self.of(base)
            for at in range(bisect_left(entries, offset, key=_last_offset), len(entries)):
                entry = entries[at]
                if entry.first_offset < until:
                    found.append(entry)
                if entry.last_stable_offset >= until:
                    return found
        return found

    def load(self, bases: Iterable[int], until: int) -> None:
        """Read what :meth:`before` needs for records below ``until``."""
        for base in bases:
            entries = self.of(base)
            if entries and entries[-1].last_stable_offset >= until:
                return

    def put(self, base_offset: int, entries: Iterable[Aborted]) -> None:
        """Write the file of a segment anew, durably; none without entries."""
        kept = tuple(entries)
        with self._lock:
            self._forget(base_offset)
            if kept:
                write_file(self._files, self._path(base_offset), encode_aborted(kept))
            elif self._files.exists(self._path(base_offset)):
                self._files.remove(self._path(base_offset))
                self._files.sync_dir(self._directory)

    def adopt(self, base_offset: int, entries: Iterable[Aborted]) -> None:
        """A compacted segment has this base offset, with a file of these entries."""
        with self._lock:
            self._forget(base_offset)
            self._known[base_offset] = AbortedEntries(encode_aborted(entries))

    def cut(self, base_offset: int, offset: int) -> None:
        """Remove the entries of a segment whose markers are at ``offset`` or behind it."""
        before = self.of(base_offset)
        kept = [entry for entry in before if entry.last_offset < offset]
        if len(kept) < len(before):
            self.put(base_offset, kept)

    def forget(self, base_offset: int) -> None:
        """The segment is gone, with its files, or others have their names."""
        with self._lock:
            self._forget(base_offset)

    def save(self) -> None:
        """Sync what was added. Any thread may call it, one at a time."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, {}
        for file in unsynced.values():
            file.handle.sync()
            file.close()

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for file in self._unsynced.values():
                file.close()
            self._unsynced.clear()

    def _forget(self, base_offset: int) -> None:
        self._known.pop(base_offset, None)
        file = self._unsynced.pop(base_offset, None)
        if file is not None:
            file.close()

    def _read(self, base_offset: int) -> AbortedEntries:
        try:
            return AbortedEntries(self._files.read(self._path(base_offset)))
        except FileNotFoundError:
            return AbortedEntries(b"")

    def _path(self, base_offset: int) -> str:
        return f"{self._directory}/{base_offset:020d}{SUFFIX}"
