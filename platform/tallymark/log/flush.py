"""A flush in three steps, so that the event loop never waits for the disk.

::

    job = log.take_flush()      in the owner's thread: index entries are written, handles collected
    job.run()                   in any thread: the syncs, some milliseconds
    log.finish_flush(job)       in the owner's thread: the recovery point moves

``log.flush()`` does all three.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.log.files import Files, Handle


class FlushJob:
    """Makes everything below ``offset`` durable. ``error`` is set where that failed."""

    __slots__ = ("_directory", "_files", "error", "handles", "offset")

    def __init__(
        self, files: Files, handles: Sequence[Handle], directory: str, offset: int
    ) -> None:
        self._files = files
        self.handles = handles
        self._directory = directory
        self.offset = offset
        self.error: OSError | None = None

    def run(self) -> None:
        """Sync the files, then the folder that names them. Raises nothing: see ``error``."""
        try:
            for handle in self.handles:
                handle.sync()
            self._files.sync_dir(self._directory)
        except OSError as error:
            self.error = error
