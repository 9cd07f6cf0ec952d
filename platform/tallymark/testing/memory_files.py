"""A disk in memory that fails on request and forgets what was not synced.

:class:`MemoryFiles` has the same port as :class:`tallymark.log.disk.files.OsFiles`. It knows two
states of every file and folder: what processes see, and what would be there after a power failure
(:mod:`tallymark.testing.memory_tree`).

* :meth:`MemoryFiles.kill` is ``kill -9``: locks are free, old handles are dead, nothing is lost.
* :meth:`MemoryFiles.lose_unsynced` is a power failure: bytes not synced are gone, or a prefix of
  them survives; so are names whose folder was not synced.
* :meth:`MemoryFiles.fail_next_write` / :meth:`~MemoryFiles.fail_next_sync` / ``break_disk`` are a
  full or a dying disk; :meth:`MemoryFiles.fail_operation` fails the n-th thing that is asked of
  it, whatever that is: creating, writing, cutting, syncing, renaming, removing.
"""

# The open files of a disk read its faults and its era.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass

from tallymark.log.disk.files import Data, File, Handle, Lock, LockHeldError
from tallymark.testing.memory_tree import Folder, Inode, MemoryTree, Survivors


@dataclass(slots=True)
class _Fault:
    where: str
    error: int
    written: int


class MemoryFiles:
    """A :class:`tallymark.log.disk.files.Files` in memory. Single-threaded, for tests."""

    def __init__(self) -> None:
        self._tree = MemoryTree()
        self._room: int | None = None
        self._locks: dict[str, str] = {}
        self._write_faults: list[_Fault] = []
        self._sync_faults: list[_Fault] = []
        self._broken: set[str] = set()
        self._fail_at: tuple[int, int, float] | None = None
        self._era = 0
        self.operations = 0
        self.failed: str | None = None
        self.writes = 0
        self.syncs = 0

    # --- faults

    def fail_next_write(self, where: str = "", *, written: int = 0, error: int = 28) -> None:
        """The next append to a path that contains ``where`` writes only ``written`` bytes, then
        fails with ``error`` (28 is ENOSPC, no space left)."""
        self._write_faults.append(_Fault(where, error, written))

    def fail_next_sync(self, where: str = "", *, error: int = 5) -> None:
        """The next sync of a path that contains ``where`` fails with ``error`` (5 is EIO)."""
        self._sync_faults.append(_Fault(where, error, 0))

    def fail_operation(self, number: int, *, error: int = 5, written: float = 0.0) -> None:
        """The ``number``-th change asked of the disk from now on (0 is the next one) fails with
        ``error``; an append has then written the share ``written`` of its bytes. ``operations``
        counts them, ``failed`` says which one it was."""
        self._fail_at = (self.operations + number, error, written)
        self.failed = None

    def break_disk(self, path: str) -> None:
        """From now on everything under ``path`` fails with EIO."""
        self._broken.add(path)

    def mend_disk(self, path: str) -> None:
        """Another disk with the same content."""
        self._broken.discard(path)

    def fill(self, room: int) -> None:
        """From now on only ``room`` bytes can be appended; then the disk is full."""
        self._room = room

    def empty(self) -> None:
        """There is room again."""
        self._room = None

    def kill(self) -> None:
        """``kill -9`` of the process: its locks and handles are gone, its writes are not."""
        self._era += 1
        self._locks.clear()

    def lose_unsynced(
        self, survivors: Survivors = lambda path, size: 0, *, removed_are_back: bool = True
    ) -> None:
        """Power failure: every file is what was synced, and of the bytes appended since then the
        first ``survivors(path, count)``; every folder has the names it had when it was synced.
        Files removed since then are back, or not: a disk may do either."""
        self.kill()
        self._tree.lose_unsynced(survivors, removed_are_back)

    # --- what a test looks at

    def content(self, path: str) -> bytes:
        """The bytes of a file."""
        return bytes(self._tree.inode(path).content)

    def names(self, path: str) -> list[str]:
        """What is in a folder, also of a broken disk."""
        return sorted(self._tree.folder(path).names)

    def overwrite(self, path: str, data: Data) -> None:
        """Put other bytes into a file, synced: damage, or a test's own file."""
        inode = self._tree.inode(path, create=True)
        inode.content[:] = data
        inode.durable = bytes(data)

    def durable(self, path: str) -> bytes:
        """The bytes of a file that a power failure leaves."""
        return self._tree.inode(path).durable

    def unsynced(self, path: str) -> bool:
        """Whether a power failure would take something from the file."""
        inode = self._tree.inode(path)
        return bytes(inode.content) != inode.durable

    # --- the Files port

    def open(self, path: str, *, create: bool = True) -> File:
        self._check(path)
        if create and self._tree.find(path) is None:
            self._operate("create", path)
        return _MemoryFile(self, path, self._tree.inode(path, create=create))

    def reader(self, path: str) -> Handle:
        self._check(path)
        return _MemoryFile(self, path, self._tree.inode(path))

    def read(self, path: str) -> bytes:
        self._check(path)
        return self.content(path)

    def exists(self, path: str) -> bool:
        return self._tree.find(path) is not None

    def size(self, path: str) -> int:
        self._check(path)
        return len(self._tree.inode(path).content)

    def space(self, path: str) -> tuple[int, int]:
        self._check(path)
        return 2**40, 2**39 if self._room is None else self._room

    def listdir(self, path: str) -> list[str]:
        self._check(path)
        return sorted(self._tree.folder(path).names)

    def is_dir(self, path: str) -> bool:
        return isinstance(self._tree.find(path), Folder)

    def make_dirs(self, path: str) -> None:
        self._check(path)
        if self._tree.find(path) is None:
            self._operate("make_dirs", path)
        self._tree.make_dirs(path)

    def remove(self, path: str) -> None:
        self._check(path)
        parent, name = os.path.split(path)
        found = self._tree.find(path)
        if isinstance(found, Folder):
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        if found is not None:
            self._operate("remove", path)
            del self._tree.folder(parent).names[name]

    def remove_dir(self, path: str) -> None:
        self._check(path)
        if self._tree.folder(path).names:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        self._operate("remove_dir", path)
        parent, name = os.path.split(path)
        del self._tree.folder(parent).names[name]

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        node = self._tree.find(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self._operate("rename", old)
        self._tree.folder(os.path.dirname(new)).names[os.path.basename(new)] = node
        source = self._tree.folder(os.path.dirname(old))
        del source.names[os.path.basename(old)]
        source.moved.add(os.path.basename(old))

    def sync_dir(self, path: str) -> None:
        folder = self._tree.folder(path)
        names, moved = dict(folder.names), set(folder.moved)
        self._sync(path)
        folder.durable_names = names
        folder.moved -= moved

    def lock(self, path: str, owner: str) -> Lock:
        self._tree.inode(path, create=True)
        if path in self._locks:
            raise LockHeldError(path, self._locks[path])
        self._locks[path] = owner
        return _MemoryLock(self._locks, path)

    # --- inside

    def _check(self, path: str) -> None:
        if any(path.startswith(broken) for broken in self._broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _operate(self, what: str, path: str, torn: Callable[[float], None] | None = None) -> None:
        """Count a change; fail it when its turn has come, half done by ``torn``."""
        number, self.operations = self.operations, self.operations + 1
        if self._fail_at is not None and number == self._fail_at[0]:
            _, error, written = self._fail_at
            self.failed = f"{what} {path}"
            if torn is not None:
                torn(written)
            raise OSError(error, os.strerror(error), path)

    def _time_passes(self) -> None:
        """A sync is under way; others may use the disk meanwhile."""

    def _sync(self, path: str) -> None:
        self._check(path)
        self.syncs += 1
        self._operate("sync", path)
        self._time_passes()
        if fault := _take(self._sync_faults, path):
            raise OSError(fault.error, os.strerror(fault.error), path)


class _MemoryFile:
    """A file and its handle in one: nothing has to outlive a descriptor here."""

    def __init__(self, files: MemoryFiles, path: str, inode: Inode) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._era = files._era
        self._closed = False

    @property
    def handle(self) -> Handle:
        return self

    def append(self, data: Data) -> None:
        self._check_writable()
        self._files.writes += 1
        if fault := _take(self._files._write_faults, self._path):
            self._inode.content += bytes(data)[: fault.written]
            raise OSError(fault.error, os.strerror(fault.error), self._path)
        self._files._operate("append", self._path, lambda share: self._tear(data, share))
        room = self._files._room
        if room is not None:
            self._files._room = max(0, room - len(data))
            if room < len(data):
                self._inode.content += bytes(data)[:room]
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._inode.content += data

    def pread(self, size: int, position: int) -> bytes:
        self._check()
        return bytes(self._inode.content[position : position + size])

    def truncate(self, size: int) -> None:
        self._check_writable()
        self._files._operate("truncate", self._path)
        content = self._inode.content
        content[:] = content[:size].ljust(size, b"\0")

    def size(self) -> int:
        self._check()
        return len(self._inode.content)

    def sync(self) -> None:
        self._check()
        inode, number, written = self._inode, self._files.syncs, bytes(self._inode.content)
        self._files._sync(self._path)
        self._check()
        if number >= inode.synced:  # else a sync that began later has ended before
            inode.synced, inode.durable = number, written

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def close(self) -> None:
        self._closed = True

    def _tear(self, data: Data, share: float) -> None:
        self._inode.content += bytes(data)[: int(share * len(data))]

    def _check(self) -> None:
        if self._era != self._files._era:
            raise OSError(errno.EBADF, "the process that opened it is dead", self._path)
        self._files._check(self._path)

    def _check_writable(self) -> None:
        self._check()
        if self._closed:
            raise OSError(errno.EBADF, "closed", self._path)


class _MemoryLock:
    def __init__(self, locks: dict[str, str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.pop(self._path, None)


def _take(faults: list[_Fault], path: str) -> _Fault | None:
    for index, fault in enumerate(faults):
        if fault.where in path:
            return faults.pop(index)
    return None
