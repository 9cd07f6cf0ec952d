"""The disk as a small port, and its implementation on the operating system.

The log reads and writes only through :class:`Files`, so a test can put
:class:`tallymark.testing.memory_files.MemoryFiles` in its place, whose writes fail on request and
which forgets what was not synced. Paths are plain strings. Every failure is an ``OSError``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from tallymark.errors import TallymarkError
from tallymark.private_files import open_private

Data: TypeAlias = bytes | bytearray | memoryview

_NEW_FILE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT
_OLD_FILE: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class NoRoomError(OSError):
    """The disk is full: nothing was written, and everything is as it was before. So the log may
    continue, and the same write may be tried again when there is room.

    Only a write that is sure of that raises it. A *sync* that fails for lack of room raises another
    error: what it was to write may be lost.
    """


@contextmanager
def noticing_no_room() -> Iterator[None]:
    """Raise NoRoomError for a write that failed for lack of room. Use it where such a write leaves
    nothing behind, or was undone."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoomError(error.errno, error.strerror, error.filename) from error
        raise


class LockHeldError(TallymarkError):
    """Another process holds a lock file; ``owner`` is what it wrote into the file."""

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(f"{path} is locked by {owner}")
        self.path = path
        self.owner = owner


class Handle(Protocol):
    """An open file for readers and for threads that sync. It stays valid after :meth:`File.close`
    and after the removal of the file, so bytes on their way to a socket do not change."""

    def fileno(self) -> int:
        """The descriptor for ``sendfile``; ``OSError`` where there is none (in memory)."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only at the end of the file."""
        ...

    def sync(self) -> None:
        """Return when every byte written so far is on the disk (fsync). Any thread may call it."""
        ...


class File(Protocol):
    """A file that only grows at its end, except for :meth:`truncate`. One writer."""

    @property
    def handle(self) -> Handle: ...

    def append(self, data: Data) -> None:
        """Write all of ``data`` at the end. After an ``OSError`` a part of it may be in the file:
        the caller truncates."""
        ...

    def pread(self, size: int, position: int) -> bytes: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None:
        """No more appends. Handles stay valid."""
        ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    """The directory tree. Names become durable with :meth:`sync_dir` of their folder."""

    def open(self, path: str, *, create: bool = True) -> File: ...

    def reader(self, path: str) -> Handle:
        """A handle of a file that is there, which cannot change it."""
        ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes of the file."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the disk that the folder is on."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Names in the folder, sorted."""
        ...

    def is_dir(self, path: str) -> bool: ...

    def make_dirs(self, path: str) -> None:
        """Make the folder and those above it; fine where they are there."""
        ...

    def remove(self, path: str) -> None:
        """Remove the file; fine where there is none."""
        ...

    def remove_dir(self, path: str) -> None:
        """Remove the empty folder."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, atomically; a file at ``new`` is replaced."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the names in the folder are on the disk."""
        ...

    def lock(self, path: str, owner: str) -> Lock:
        """Hold ``path`` until released or until this process dies, however it dies. Raises
        LockHeldError with the holder's ``owner`` text."""
        ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """``size`` bytes of a file from ``position``: a fetch returns this instead of a copy.

    ``sendfile(socket, slice.fileno(), slice.position, slice.size)``, or :meth:`read`.
    """

    file: Handle
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        """The bytes; ``EOFError`` where the file has become shorter."""
        data = self.file.pread(self.size, self.position)
        if len(data) != self.size:
            raise EOFError(f"{len(data)} of {self.size} bytes at {self.position}")
        return data


def write_file(files: Files, path: str, data: Data, *, durable: bool = True) -> Handle:
    """Put ``data`` in the place of ``path`` at once: a reader, and a start after a crash, finds
    the old content or the new one. ``durable``: it is the new one from the return on. Otherwise
    the caller syncs the returned handle, and the folder."""
    draft = path + ".tmp"
    files.remove(draft)
    with noticing_no_room():
        file = files.open(draft)
        file.append(data)
    if durable:
        file.handle.sync()
    file.close()
    files.rename(draft, path)
    if durable:
        files.sync_dir(os.path.dirname(path))
    return file.handle


class _OsHandle:
    """Owns a descriptor and closes it when the last reader has dropped it, not at a chosen moment:
    ``sendfile`` of a deleted segment must not use a descriptor number that was given to another
    file."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def fileno(self) -> int:
        return self.fd

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self.fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]  # short: the end of the file, a signal, or more than 2 GiB asked for
        got = len(data)
        while got < size and (data := os.pread(self.fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def sync(self) -> None:
        os.fsync(self.fd)


class _OsFile:
    __slots__ = ("_fd", "_handle")

    def __init__(self, fd: int) -> None:
        self._handle = _OsHandle(fd)
        self._fd = fd

    @property
    def handle(self) -> Handle:
        return self._handle

    def append(self, data: Data) -> None:
        written = os.write(self._fd, data)
        if written != len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def pread(self, size: int, position: int) -> bytes:
        return self._handle.pread(size, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        self._fd = -1  # any further append fails with EBADF


class _OsLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OsFiles:
    """:class:`Files` on the operating system (POSIX)."""

    def open(self, path: str, *, create: bool = True) -> File:
        return _OsFile(open_private(path, _NEW_FILE) if create else os.open(path, _OLD_FILE))

    def reader(self, path: str) -> Handle:
        return _OsHandle(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts: list[bytes] = []
            while data := os.read(fd, 1 << 20):
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_dirs(self, path: str) -> None:
        Path(path).mkdir(0o700, parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str, owner: str) -> Lock:
        fd = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.write(fd, owner.encode())
        except BlockingIOError:
            held_by = os.pread(fd, 1000, 0).decode(errors="replace").strip()
            os.close(fd)
            raise LockHeldError(path, held_by or "another process") from None
        except OSError:
            os.close(fd)
            raise
        return _OsLock(fd)
