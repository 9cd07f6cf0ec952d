"""Putting a compacted segment in the place of its sources, so that a crash at any moment leaves the
old records or the new ones, never neither and never both.

The example replaces the segments 0 and 500 by a new one that begins at 0::

                                  names in the folder, after this step was synced
    written by the compaction     0.log  500.log   0.log.cleaned  0.index.cleaned ...
    prepare()    any thread       0.log  500.log   0.log.swap     0.index.cleaned ...
    exchange()   owner's thread   the log's list of segments has the new one from now on
    finish()     any thread       0.log            0.log.swap     (old indexes went too)
                                  0.log  0.index  0.timeindex

A start that finds ``.swap`` does what :meth:`Swap.finish` does: the new segment is whole, it was
synced before it got that name. Before that name is durable nothing is removed; before the sources
are gone durably the name does not change again. Where the exchange is refused (retention has taken
a source meanwhile) :meth:`Swap.withdraw` removes the files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tallymark.errors import CorruptRecordError, KafkaError
from tallymark.log.compaction.output import CLEANED, INDEXES
from tallymark.log.compaction.task import Cleaned
from tallymark.log.disk.files import Files
from tallymark.log.disk.health import guarded
from tallymark.log.segments.indexes import SegmentIndexes
from tallymark.log.segments.offset_index import IndexDamagedError
from tallymark.log.segments.scan import walk
from tallymark.log.segments.segment import Segment

if TYPE_CHECKING:
    from tallymark.log.log import Log

log = logging.getLogger(__name__)

SWAP: Final = ".swap"


class Swap:
    """The three steps for one new segment. Each raises KafkaError: KAFKA_STORAGE_ERROR where the
    disk fails (it is offline then) or the log was closed, CORRUPT_MESSAGE where the new files are
    not what they should be."""

    def __init__(self, target: Log, cleaned: Cleaned) -> None:
        self._log = target
        self._files: Files = target._files
        self._cleaned = cleaned
        self._stem = f"{target.directory}/{cleaned.base_offset:020d}"
        bases = set(cleaned.sources)
        self._sources = [each for each in target.closed_segments if each.base_offset in bases]
        self._new: Segment | None = None

    def prepare(self) -> None:
        """Make the new segment one that a start would use, and open it."""
        with self._log._turn.lock, guarded(self._log._health, f"compact {self._log.name}"):
            self._log.check_usable()
            self._new = self._opened()
            self._files.rename(f"{self._stem}.log{CLEANED}", f"{self._stem}.log{SWAP}")
            self._files.sync_dir(self._log.directory)

    def exchange(self) -> bool:
        """The log's list has the new segment from now on; False where its sources are no longer
        there. Never waits for the disk."""
        assert self._new is not None, "prepare() first"
        if len(self._sources) != len(self._cleaned.sources):
            return False
        return self._log.replace_segments(self._sources, self._new)

    def finish(self) -> None:
        """Remove the sources and give the new files their names. A log that was deleted meanwhile
        took them with it."""
        with self._log._turn.lock:
            try:
                with guarded(self._log._health, f"compact {self._log.name}"):
                    self._log.check_usable()
                    self._rename()
            except KafkaError:
                if not self._log.is_closed:
                    raise

    def withdraw(self) -> None:
        """The new segment is not wanted."""
        with self._log._turn.lock, suppress(OSError):
            withdraw(self._files, self._log.directory, self._cleaned)

    def _opened(self) -> Segment:
        """The new segment, opened by the name that it has now; what is open survives a renaming."""
        cleaned, interval = self._cleaned, self._log.config.index_interval_bytes
        segment = Segment(self._files, self._log.directory, cleaned.base_offset, interval)
        segment._file = self._files.open(f"{self._stem}.log{CLEANED}", create=False)
        size = segment._file.size()
        if size != cleaned.size:
            raise CorruptRecordError(
                f"{self._stem}.log{CLEANED} has {size} bytes, not {cleaned.size}"
            )
        segment._end = (size, cleaned.end_offset)
        try:
            segment._indexes = SegmentIndexes.load(self._files, self._stem, interval, size, CLEANED)
        except IndexDamagedError as error:
            raise CorruptRecordError(f"{self._stem}.index{CLEANED}: {error}") from error
        return segment

    def _rename(self) -> None:
        new = self._new
        assert new is not None
        for source in self._sources:
            source.close()
        if new.removed:  # retention was faster: what it has deleted goes with its sources
            for source in self._sources:
                _remove(self._files, source.stem, (".log", *INDEXES))
            withdraw(self._files, self._log.directory, self._cleaned)
            return
        _remove_sources(self._files, self._log.directory, self._cleaned.sources)
        for suffix in INDEXES:
            self._files.rename(f"{self._stem}{suffix}{CLEANED}", f"{self._stem}{suffix}")
        self._files.rename(f"{self._stem}.log{SWAP}", new.path)
        self._files.sync_dir(self._log.directory)


def swap(target: Log, cleaned: Cleaned) -> bool:
    """All steps in one thread; whether the new segment is in the log."""
    job = Swap(target, cleaned)
    job.prepare()
    if not job.exchange():
        job.withdraw()
        return False
    job.finish()
    return True


def withdraw(files: Files, directory: str, cleaned: Cleaned) -> None:
    """Remove the files of a new segment that is not wanted, whatever they are called by now."""
    names = (f".log{SWAP}", f".log{CLEANED}", *(f"{suffix}{CLEANED}" for suffix in INDEXES))
    _remove(files, f"{directory}/{cleaned.base_offset:020d}", names)


def complete_swaps(files: Files, directory: str) -> None:
    """At a start: finish what a crash has interrupted in this folder, durably."""
    names = files.listdir(directory)
    bases = [int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdigit()]
    for name in names:
        base = name.removesuffix(f".log{SWAP}")
        if base == name or not base.isdigit():
            continue
        end = _end_of(files, f"{directory}/{name}")
        if end is None:
            # Never seen: the file was synced before it got its name. The sources are older, whole.
            log.error("%s/%s does not end with a whole batch and is not used", directory, name)
            continue
        first = int(base)
        sources = [first, *(other for other in bases if first < other < end)]
        log.info("%s: completing the compaction of %d segments", directory, len(sources))
        _remove_sources(files, directory, sources)
        files.rename(f"{directory}/{name}", f"{directory}/{base}.log")
        files.sync_dir(directory)


def _remove_sources(files: Files, directory: str, sources: Sequence[int]) -> None:
    """Durably remove the old files, but for the log that the new one is going to replace."""
    for number, base in enumerate(sources):
        suffixes = (".log", *INDEXES) if number else INDEXES
        _remove(files, f"{directory}/{base:020d}", suffixes)
    files.sync_dir(directory)


def _remove(files: Files, stem: str, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        files.remove(stem + suffix)


def _end_of(files: Files, path: str) -> int | None:
    """The offset behind the last batch, None where the file does not end with one."""
    file = files.open(path, create=False)
    try:
        size = file.size()
        end, position = 0, 0
        for position, header in walk(file.handle, 0, size):
            end = header.next_offset
            position += header.size
        return end if position == size and size else None
    finally:
        file.close()
