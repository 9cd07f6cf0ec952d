"""Deleting the oldest segments in three steps, so that the event loop never waits for the disk.

::

    old = log.find_expired(now_ms)       in any thread: facts from the indexes of old segments
    job = log.take_expired(old)          in the owner's thread: the segments leave the list
    job.run()                            in any thread: their files go
    log.finish_deletion(job)             in the owner's thread: a failed disk raises

``log.apply_retention(now_ms)`` does all of it; ``log.begin_deletion(offset)`` begins in the middle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tallymark.log.disk.files import Files
from tallymark.log.segments.segment import Segment
from tallymark.log.upkeep.flush import DiskTurn


class DeletionJob:
    """Removes the files of ``segments``, which are no longer in the list. ``start_offset`` is where
    the log begins now; ``error`` is set where the disk failed.

    ``save_start`` writes that offset to the disk, where it is inside of a segment.
    """

    __slots__ = ("_directory", "_files", "_save_start", "_turn", "error", "segments",
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

    def run(self) -> None:
        """Make the new start durable, then remove files. Raises nothing: see ``error``."""
        with self._turn.lock:
            try:
                self._save_start()
                if self.segments:
                    # The names of the segments that stay must be durable first: a folder that
                    # loses all of them would begin again at offset 0.
                    self._files.sync_dir(self._directory)
                    for segment in self.segments:
                        segment.remove()
            except OSError as error:
                self.error = error
