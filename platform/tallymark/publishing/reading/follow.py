"""A file that grows, as ``tail -F`` reads it: through rotation and truncation.

* **rotated**: another file has the name. The old one is read to its end first; a last line without
  newline in it is ended there.
* **truncated** (``copytruncate``): the file is shorter than what was read. Reading starts again at
  its beginning; a half line that was read before belongs to no line any more and is dropped.

At the end of the run a half line is left alone: its writer has not finished it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from tallymark.errors import UserError
from tallymark.publishing.reading.rows import Stop

_CHUNK: Final = 262_144
POLL_S: Final = 0.1


class Follower:
    """Yields whole lines only, so that what the splitter keeps is never half a line."""

    def __init__(self, path: str, fd: int, stop: Stop) -> None:
        self._fd = fd
        self._stop = stop
        self._half = b""
        self.name = path
        self.total: int | None = None
        self.position = 0

    def chunks(self) -> Iterator[bytes | None]:
        """Runs until ``stop`` is set."""
        while not self._stop.is_set():
            chunk = self._read()
            if chunk:
                yield from self._whole_lines(chunk)
            elif (successor := self._successor()) is not None:
                # What was written between our last read and the rename is still to be read.
                while last := self._read():
                    yield from self._whole_lines(last)
                if self._half:
                    yield self._half + b"\n"
                self._begin(successor)
            elif os.fstat(self._fd).st_size < self.position:
                os.lseek(self._fd, 0, os.SEEK_SET)
                self.position = 0
                self._half = b""
            else:
                yield None
                self._stop.wait(POLL_S)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except OSError as error:
            raise UserError(f"cannot read {self.name}: {error.strerror}") from error
        self.position += len(chunk)
        return chunk

    def _whole_lines(self, chunk: bytes) -> Iterator[bytes]:
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield self._half + whole + newline
            self._half = rest
        elif len(self._half) > _CHUNK * 8:
            # No line is so long: let the splitter see it and refuse it.
            yield self._half + chunk
            self._half = b""
        else:
            self._half += chunk

    def _successor(self) -> int | None:
        """A descriptor of the file that has taken the name, None while it is still ours (or while
        there is none for a moment, in the middle of a rotation)."""
        try:
            fd = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        if os.path.sameopenfile(fd, self._fd):
            os.close(fd)
            return None
        return fd

    def _begin(self, fd: int) -> None:
        os.close(self._fd)
        self._fd = fd
        self._half = b""
        self.position = 0
