"""Files that free descriptors when the process has none left.

Every segment that was read or written keeps its file open, old ones too. They are not counted.
Where an operation fails for lack of a descriptor, all logs close the files that are on the disk
already and not in use (:meth:`tallymark.log.log.Log.release_files`; they are opened again when they
are needed), and the operation is tried again. If it fails again, that is an error of the operation,
not of the disk (:mod:`tallymark.log.disk.health`).

Segments that are not on the disk yet stay open, so they could take all descriptors. Then nothing
could be flushed any more, since a flush opens indexes and folders for a moment. So no segment gets
one of the last :data:`SPARE` descriptors. The kernel returns the lowest free number: one of the
last numbers means that no lower one is free.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Final, TypeVar

from tallymark.log.disk.files import File, Files, Handle, Lock
from tallymark.log.disk.health import is_of_the_disk

log: Final = logging.getLogger(__name__)

T = TypeVar("T")
SPARE: Final = 16
_TELL_SECONDS: Final = 60.0


class BoundedFiles:
    """:class:`~tallymark.log.disk.files.Files` around others. ``release_files`` closes what can be
    closed and returns how many; any thread may call it."""

    def __init__(self, files: Files, release_files: Callable[[], int]) -> None:
        self._files = files
        self._release_files = release_files
        self._told = -_TELL_SECONDS
        limit = getrlimit(RLIMIT_NOFILE)[0]
        self._last = None if limit == RLIM_INFINITY else limit - SPARE
        self.is_short = False
        """Whether an operation failed for lack of descriptors; its reader resets it."""
        self.exists = files.exists
        self.size = files.size
        self.space = files.space
        self.is_dir = files.is_dir
        self.make_dirs = files.make_dirs
        self.remove = files.remove
        self.remove_dir = files.remove_dir
        self.rename = files.rename

    def open(self, path: str, *, create: bool = True) -> File:
        if path.endswith(".log"):
            return self._again(lambda: self._open_segment(path, create))
        return self._again(lambda: self._files.open(path, create=create))

    def reader(self, path: str) -> Handle:
        return self._again(lambda: self._files.reader(path))

    def read(self, path: str) -> bytes:
        return self._again(lambda: self._files.read(path))

    def listdir(self, path: str) -> list[str]:
        return self._again(lambda: self._files.listdir(path))

    def sync_dir(self, path: str) -> None:
        self._again(lambda: self._files.sync_dir(path))

    def lock(self, path: str, owner: str) -> Lock:
        return self._again(lambda: self._files.lock(path, owner))

    def _open_segment(self, path: str, create: bool) -> File:
        file = self._files.open(path, create=create)
        if self._last is not None and _number(file) >= self._last:
            file.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return file

    def _again(self, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except OSError as error:
            if is_of_the_disk(error):
                raise
            self.is_short = True
            count = self._release_files()
            if not count:
                raise
            now = time.monotonic()
            if now - self._told >= _TELL_SECONDS:
                self._told = now
                log.warning("out of descriptors: %d segments let go of their files", count)
        return operation()


def _number(file: File) -> int:
    try:
        return file.handle.fileno()
    except OSError:  # in memory
        return -1
