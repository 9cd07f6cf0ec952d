"""The rejects file: what was not published, and why, as JSON lines.

::

    {"line": 17, "reason": "price: a number is expected, not 'n/a'", "raw": "{\\"price\\": ..."}

so that it can be corrected and published again.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from tallymark.errors import UserError
from tallymark.private_files import open_private


class Rejects:
    """Appends to ``path``, which is made with the first reject. Thread-safe; several processes may
    share a file, since each line is one write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._lock = threading.Lock()

    def add(self, line: int, reason: str, raw: str) -> None:
        """Raises UserError if the file cannot be written: rejects must not get lost silently."""
        text = json.dumps({"line": line, "reason": reason, "raw": raw})
        with self._lock:
            try:
                if self._fd is None:
                    self._fd = self._open()
                _write_all(self._fd, text.encode() + b"\n")
            except OSError as error:
                raise UserError(
                    f"cannot write the rejects file {self.path}: {error.strerror}",
                    "name another one with --rejects",
                ) from error

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _write_all(fd: int, data: bytes) -> None:
    # A write may be short when the disk fills up; the next one then says so.
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
