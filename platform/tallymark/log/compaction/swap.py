"""Puts a compacted segment in the place of its sources, so that a crash at any moment leaves the
old records or the new ones, but never both or none.

The example replaces the segments 0 and 500 by a new one that begins at 0::

                                  names in the folder, after this step was synced
    written by the compaction     0.log  500.log   0.log.cleaned  0.index.cleaned ...
    prepare()    any thread       0.log  500.log   0.log.swap     0.index.cleaned ...
    exchange()   owner's thread   the log's list of segments has the new one from now on
    finish()     any thread       0.log            0.log.swap     (old indexes went too)
                                  0.log  0.index  0.timeindex

A start that finds ``.swap`` does what :meth:`Swap.finish` does: the new segment is whole, it was
synced before it got that name. Nothing is removed before that name is durable, and the name does
not change again before the removal of the sources is durable. Where the exchange is refused
(retention has removed a source meanwhile, or the log was cut) :meth:`Swap.withdraw` removes the
files.
"""

from __future__ import annotations

from contextlib import suppress

from tallymark.errors import KafkaError
from tallymark.log.compaction.task import Cleaned
from tallymark.log.log import Log
from tallymark.log.producers.aborted import Aborted, decode_aborted
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.swap_files import (
    ABORTED,
    BESIDE,
    CLEANED,
    INDEXES,
    SWAP,
    remove_files,
    remove_new,
    remove_sources,
    rename_aborted,
)


class Swap:
    """The three steps for one new segment. Each raises KafkaError: KAFKA_STORAGE_ERROR where the
    disk fails (it is offline then) or the log was closed, CORRUPT_MESSAGE where the new files are
    not what they should be."""

    def __init__(self, target: Log, cleaned: Cleaned, cuts: int | None = None) -> None:
        """``cuts``: :attr:`Log.cuts` when the compaction began. After a cut other records may stand
        at the offsets of the sources."""
        self._log = target
        self._cuts = target.cuts if cuts is None else cuts
        self._finished = False
        self._files = target.files
        self._cleaned = cleaned
        self._stem = f"{target.directory}/{cleaned.base_offset:020d}"
        bases = set(cleaned.sources)
        self._sources = [each for each in target.closed_segments if each.base_offset in bases]
        self._new: Segment | None = None
        self._aborted: tuple[Aborted, ...] = ()

    def prepare(self) -> None:
        """Rename the new segment so that a start would use it, and open it."""
        with self._log.replacing():
            if self._log.cuts != self._cuts:
                return
            self._new = self._opened()
            self._aborted = self._aborted_of_new()
            self._files.rename(f"{self._stem}.log{CLEANED}", f"{self._stem}.log{SWAP}")
            self._files.sync_dir(self._log.directory)

    def exchange(self) -> bool:
        """The log's list has the new segment from now on; False where its sources are no longer
        there. Never waits for the disk."""
        if self._log.cuts != self._cuts:
            return False
        assert self._new is not None, "prepare() first"
        if len(self._sources) != len(self._cleaned.sources):
            return False
        return self._log.replace_segments(
            self._sources, self._new, self._aborted, self._rename_once
        )

    def finish(self) -> None:
        """Remove the sources and give the new files their names. A log that was deleted meanwhile
        took them with it."""
        try:
            with self._log.disk_lock:
                finished = self._finished  # by a cut, which needed it
            if not finished:
                with self._log.replacing():
                    self._rename_once()
        except KafkaError:
            if not self._log.is_closed:
                raise
        self._log.forget_unfinished(self._rename_once)

    def withdraw(self) -> None:
        """Remove the new segment: it is not wanted."""
        with self._log.disk_lock, suppress(OSError):
            self._remove_new()

    def _opened(self) -> Segment:
        """The new segment, opened by the name that it has now; what is open survives a renaming."""
        cleaned = self._cleaned
        return Segment.adopt(
            self._files,
            self._log.directory,
            cleaned.base_offset,
            self._log.config.index_interval_bytes,
            suffix=CLEANED,
            size=cleaned.size,
            next_offset=cleaned.end_offset,
        )

    def _aborted_of_new(self) -> tuple[Aborted, ...]:
        path = f"{self._stem}{ABORTED}{CLEANED}"
        return decode_aborted(self._files.read(path)) if self._files.exists(path) else ()

    def _rename_once(self) -> None:
        if not self._finished:
            self._rename()
            self._finished = True

    def _rename(self) -> None:
        new = self._new
        assert new is not None
        for source in self._sources:
            source.close()
        if new.removed:  # retention was faster: what it has deleted goes with its sources
            for source in self._sources:
                remove_files(self._files, source.stem, (".log", *BESIDE))
            self._remove_new()
            return
        remove_sources(self._files, self._log.directory, self._cleaned.sources)
        for suffix in INDEXES:
            self._files.rename(f"{self._stem}{suffix}{CLEANED}", f"{self._stem}{suffix}")
        rename_aborted(self._files, self._stem)
        self._files.rename(f"{self._stem}.log{SWAP}", new.path)
        self._files.sync_dir(self._log.directory)

    def _remove_new(self) -> None:
        remove_new(self._files, self._log.directory, self._cleaned.base_offset)


def swap(target: Log, cleaned: Cleaned) -> bool:
    """All steps in one thread. Returns whether the new segment is in the log."""
    job = Swap(target, cleaned)
    job.prepare()
    if not job.exchange():
        job.withdraw()
        return False
    job.finish()
    return True
