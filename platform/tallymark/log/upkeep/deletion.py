"""Deleting the oldest segments in three steps, so that the event loop never waits for the disk.

::

    old = log.find_expired(now_ms)       in any thread: facts from the indexes of old segments
    job = log.take_expired(old, until)   in the owner's thread: the segments leave the list
    job.run()                            in any thread: their files go
    log.finish_deletion(job)             in the owner's thread: a failed disk raises

``log.apply_retention(now_ms)`` does all of it; ``log.begin_deletion(offset)`` begins in the middle.
What lies behind the high watermark stays: another replica may have other records there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tallymark.log.config import LogConfig
from tallymark.log.disk.files import Files
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.segment_list import SegmentList
from tallymark.log.upkeep.flush import DiskTurn
from tallymark.log.upkeep.retention import deletable


class ExpiredSegments(NamedTuple):
    """The first segments of a log, to be deleted; the last of them ended at ``end``."""

    segments: tuple[Segment, ...]
    end: int

    @classmethod
    def find(cls, segments: SegmentList, config: LogConfig, now_ms: int) -> ExpiredSegments:
        """The segments that are too old or too many."""
        each = tuple(segments)
        count = deletable(each, now_ms, config.retention_ms, config.retention_bytes)
        return cls(each[:count], each[count - 1].next_offset if count else 0)

    def count_first(self, segments: SegmentList, safe: int) -> int:
        """How many of them are still the first of ``segments``, and wholly below ``safe``: the
        recovery point and the high watermark. A segment that was not flushed yet stays: a power
        failure may bring it back, and then without all of its records, so that the log would seem
        torn there."""
        count = 0
        for seen, there in zip(self.segments, segments, strict=False):
            if seen is not there or there.next_offset > min(self.end, safe):
                break
            count += 1
        return count


class DeletionJob:
    """Removes the files of ``segments``, which are no longer in the list. ``start_offset`` is where
    the log begins now; ``error`` is set where the disk failed.

    ``save_start`` writes that offset to the disk, where it is inside of a segment.
    """

    __slots__ = ("_directory", "_done", "_files", "_save_start", "_turn", "error", "segments",
                 "start_offset")  # fmt: skip

    def __init__(
        self,
        files: Files,
        directory: str,
        turn: DiskTurn,
        segments: Sequence[Segment],
        start_offset: int,
        save_start: Callable[[], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._turn = turn
        self._save_start = save_start
        self.segments = segments
        self.start_offset = start_offset
        self.error: OSError | None = None
        self._done = False

    def run(self) -> None:
        """Make the new start durable, then remove files. Raises nothing: see ``error``."""
        with self._turn.lock:
            try:
                self.run_once()
            except OSError as error:
                self.error = error

    def run_once(self) -> None:
        """:meth:`run` for a holder of the lock, where that was not done yet. Raises OSError. A cut
        needs it: a segment of the same name may be there afterwards."""
        if self._done:
            return
        self._save_start()
        if self.segments:
            # The names of the segments that stay must be durable first: a folder that loses all of
            # them would begin again at offset 0.
            self._files.sync_dir(self._directory)
            for segment in self.segments:
                segment.remove()
        self._done = True
