"""A disk of which is known what a power failure would leave, for brokers that are processes.

:class:`SyncedFiles` is the real disk, and writes into a file what was synced; :func:`lose_power`
puts the files of a broker that was killed back to that. (Another state that a power failure may
leave, with more of what was not synced, is that of a kill. All states between are those of
:class:`tallymark.testing.memory_files.MemoryFiles`, under simulated time.)

* A file keeps the bytes that it had when its last sync began.
* A file whose name is not on the disk, since its folder was not synced, is gone.
* Renames, removals and cuts have reached the disk by themselves: a journal may write them early.

The journal has one change a line, with the number of the inode::

    made INODE              a new file: nothing of it is on the disk
    size INODE BYTES        so many bytes are on the disk
    cut INODE BYTES         no more than these
    named INODE             its name is on the disk
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tallymark.log.disk.files import Data, File, Handle, OsFiles


class SyncedFiles(OsFiles):
    """``journal`` is appended to, line by line, as soon as the disk has answered."""

    def __init__(self, journal: Path) -> None:
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, inode: int, size: int | None = None) -> None:
        """One line."""
        text = f"{what} {inode}" if size is None else f"{what} {inode} {size}"
        os.write(self._journal, text.encode() + b"\n")

    def open(self, path: str, *, create: bool = True) -> File:
        is_new = create and not os.path.exists(path)
        file = super().open(path, create=create)
        if is_new:
            self.note("made", os.stat(path).st_ino)
        return _SyncedFile(self, file)

    def reader(self, path: str) -> Handle:
        return _SyncedHandle(self, super().reader(path))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if os.path.isfile(new):
            self.note("named", os.stat(new).st_ino)

    def sync_dir(self, path: str) -> None:
        with os.scandir(path) as found:
            inodes = [one.inode() for one in found if one.is_file(follow_symlinks=False)]
        super().sync_dir(path)
        for inode in inodes:
            self.note("named", inode)


class _SyncedHandle:
    def __init__(self, files: SyncedFiles, handle: Handle) -> None:
        self._files = files
        self._handle = handle

    def fileno(self) -> int:
        return self._handle.fileno()

    def pread(self, size: int, position: int) -> bytes:
        return self._handle.pread(size, position)

    def sync(self) -> None:
        before = os.fstat(self.fileno())
        self._handle.sync()
        self._files.note("size", before.st_ino, before.st_size)


class _SyncedFile:
    def __init__(self, files: SyncedFiles, file: File) -> None:
        self._files = files
        self._file = file
        self._handle = _SyncedHandle(files, file.handle)

    @property
    def handle(self) -> Handle:
        return self._handle

    def append(self, data: Data) -> None:
        self._file.append(data)

    def pread(self, size: int, position: int) -> bytes:
        return self._file.pread(size, position)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._files.note("cut", os.fstat(self._handle.fileno()).st_ino, size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class _Known:
    size: int = 0
    named: bool = False


def lose_power(folder: Path, journal: Path) -> int:
    """Put the files below ``folder`` back to what was synced, and begin the journal anew with what
    is left; returns how many bytes that took. Their process is dead. What the journal does not know
    stays as it is: locks, and what others have written."""
    known = _replayed(journal.read_text())
    lost, left = 0, list[str]()
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        found = path.stat()
        durable = known.get(found.st_ino)
        if durable is None:
            continue
        if not durable.named:
            path.unlink()
            lost += found.st_size
            continue
        if found.st_size > durable.size:
            os.truncate(path, durable.size)
            lost += found.st_size - durable.size
        inode, size = found.st_ino, min(found.st_size, durable.size)
        left.append(f"made {inode}\nsize {inode} {size}\nnamed {inode}\n")
    journal.write_text("".join(left))
    return lost


def _replayed(lines: str) -> dict[int, _Known]:
    known: dict[int, _Known] = {}
    for line in lines.splitlines():
        what, inode, *sizes = line.split()
        if what == "made":  # perhaps the number of a file that was removed
            known[int(inode)] = _Known()
            continue
        one = known.get(int(inode))
        if one is None:
            continue
        if what == "named":
            one.named = True
        else:
            size = int(sizes[0])
            one.size = max(one.size, size) if what == "size" else min(one.size, size)
    return known
