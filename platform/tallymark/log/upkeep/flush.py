"""A flush in three steps, so that the event loop never waits for the disk.

::

    job = log.begin_flush()     in the owner's thread: what is to be written is noted
    job.run()                   in any thread: index entries are written, everything is synced
    log.finish_flush(job)       in the owner's thread: the recovery point moves

``log.flush()`` does all three.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence

from tallymark.errors import CorruptRecordError
from tallymark.log.disk.files import Files, Handle
from tallymark.log.disk.health import is_of_the_disk
from tallymark.log.segments.indexes import IndexMark
from tallymark.log.segments.segment import Segment, SegmentGoneError


class DiskTurn:
    """The disk jobs of one log take turns: a thread that flushes, deletes or replaces segments
    holds ``lock``. ``error`` is the first sync that failed: a later sync would succeed and mean
    nothing, since the kernel reports a lost write once."""

    __slots__ = ("error", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.error: OSError | None = None


class FlushJob:
    """Makes everything below ``offset`` durable: it is when ``done``; ``error`` says why not. A job
    that is ``void`` does nothing and counts for nothing: the log was cut after it began.
    ``since_ms`` is the time since which the oldest message waits. ``save_epochs`` writes the leader
    epochs of these records to the disk: a recovery does not read records that were flushed."""

    __slots__ = ("_directory", "_files", "_save_epochs", "_turn", "_work", "done", "error",
                 "offset", "since_ms", "void")  # fmt: skip

    def __init__(
        self,
        files: Files,
        directory: str,
        turn: DiskTurn,
        work: Sequence[tuple[Segment, IndexMark]],
        offset: int,
        since_ms: int | None,
        save_epochs: Callable[[], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._turn = turn
        self._work = work
        self._save_epochs = save_epochs
        self.offset = offset
        self.since_ms = since_ms
        self.done = False
        self.void = False
        self.error: OSError | None = None

    def run(self) -> None:
        """Write index entries, sync the files, then the folder that names them. Raises nothing:
        see ``error``."""
        with self._turn.lock:
            self.error = self._turn.error
            if self.void or self.error is not None:
                return
            try:
                for handle in self._handles():
                    handle.sync()
                self._files.sync_dir(self._directory)
                self._save_epochs()
                self.done = True
            except OSError as error:
                self.error = error
                if is_of_the_disk(error):
                    self._turn.error = error

    def _handles(self) -> list[Handle]:
        handles: list[Handle] = []
        for segment, mark in self._work:
            if segment.removed:
                continue
            try:
                handles += segment.save(mark)
            except SegmentGoneError:
                continue  # its records were deleted, or compacted into a segment that is synced
            except CorruptRecordError as error:
                raise FileNotFoundError(errno.ENOENT, str(error)) from error
        return handles
