"""Where bytes come from: a file, a pipe, or a file that grows."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator
from typing import Final, Protocol

from tallymark.errors import UserError
from tallymark.publishing.reading.follow import Follower
from tallymark.publishing.reading.rows import Stop

CHUNK: Final = 262_144
_POLL_S: Final = 0.2


class Input(Protocol):
    """``total`` bytes if that is known, ``position`` read so far."""

    name: str
    total: int | None
    position: int

    def chunks(self) -> Iterator[bytes | None]:
        """Bytes as they come; None when there are none for the moment. Ends at ``stop``."""
        ...

    def close(self) -> None: ...


def open_input(path: str, follow: bool, stop: Stop) -> Input:
    """Open a file, or standard input for ``-``. Raises UserError if it cannot be read."""
    if path == "-":
        if follow:
            raise UserError("--follow needs a file", "name it with --input FILE")
        return PipeInput(os.dup(sys.stdin.fileno()), "standard input", stop)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(fd)
    except OSError as error:
        raise cannot_read(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        os.close(fd)
        raise UserError(f"{path} is a folder", "name a file")
    if not stat.S_ISREG(status.st_mode):
        return PipeInput(fd, path, stop)
    return Follower(path, fd, stop) if follow else FileInput(fd, path, status.st_size, stop)


def cannot_read(path: str, error: OSError) -> UserError:
    return UserError(f"cannot read {path}: {error.strerror}", "check its name and permissions")


class FileInput:
    """A regular file, from its beginning to its end."""

    def __init__(self, fd: int, name: str, size: int, stop: Stop) -> None:
        self._fd = fd
        self._stop = stop
        self.name = name
        self.total: int | None = size
        self.position = 0

    def chunks(self) -> Iterator[bytes | None]:
        while not self._stop.is_set():
            try:
                chunk = os.read(self._fd, CHUNK)
            except OSError as error:
                raise cannot_read(self.name, error) from error
            if not chunk:
                return
            self.position += len(chunk)
            yield chunk

    def close(self) -> None:
        os.close(self._fd)


class PipeInput:
    """Standard input, a FIFO, a terminal: bytes arrive at any time."""

    def __init__(self, fd: int, name: str, stop: Stop) -> None:
        self._fd = fd
        self._stop = stop
        self.name = name
        self.total: int | None = None
        self.position = 0

    def chunks(self) -> Iterator[bytes | None]:
        while not self._stop.is_set():
            # A read would sleep through a signal until the next byte.
            if not select.select([self._fd], [], [], _POLL_S)[0]:
                yield None
                continue
            try:
                chunk = os.read(self._fd, CHUNK)
            except OSError as error:
                raise cannot_read(self.name, error) from error
            if not chunk:
                return
            self.position += len(chunk)
            yield chunk

    def close(self) -> None:
        os.close(self._fd)
