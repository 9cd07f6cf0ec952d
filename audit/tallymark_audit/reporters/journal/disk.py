"""What a journal does on the disk, one method for each step, so that a test can fail at each.

A file is locked (``flock``) while its run lives; by that other processes know that it lives. Its
blocks are allocated before they are mapped: a write to a mapped page for which the disk has no room
kills the process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from tallymark.private_files import open_private


@dataclass(slots=True)
class Mapped:
    """A file that is open, locked and mapped."""

    file: int
    map: mmap.mmap

    def close(self) -> None:
        """Close the map and the file, which releases its lock."""
        if self.file >= 0:
            self.map.close()
            os.close(self.file)
            self.file = -1


class Disk:
    """The file system. Every method raises OSError when it cannot."""

    def make_folder(self, folder: Path) -> None:
        """With its parents, readable by its user alone; a folder that is there stays as it is."""
        folder.mkdir(0o700, parents=True, exist_ok=True)

    def create(self, path: Path, size: int) -> Mapped:
        """A file of ``size`` zeros."""
        file = open_private(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if hasattr(os, "posix_fallocate"):  # so that a full disk is an error here, not SIGBUS
                os.posix_fallocate(file, 0, size)
            else:
                os.truncate(file, size)
            return Mapped(file, mmap.mmap(file, size))  # MAP_SHARED
        except BaseException:
            os.close(file)
            path.unlink(missing_ok=True)
            raise

    def write(self, mapped: Mapped, position: int, data: bytes) -> None:
        """In place; there is room."""
        mapped.map[position : position + len(data)] = data

    def rename(self, old: Path, new: Path) -> None:
        """Put one file in another's place."""
        os.rename(old, new)

    def remove(self, path: Path) -> None:
        """It may be gone."""
        path.unlink(missing_ok=True)
