"""A file whose content is read again when it has changed: users, tokens, roles."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from tallymark.errors import UserError

Value = TypeVar("Value")
log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Between two looks at the file."""


class RereadFile(Generic[Value]):
    """What ``read`` makes of the file at ``path``. A changed file counts within
    :data:`LOOK_SECONDS`. One that is wrong, or gone, changes nothing: an error is logged, once, and
    what was read before stays in force. ``what`` names it in the log. Thread-safe.

    ``read`` raises UserError for a file that cannot be used; the constructor passes it on."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Value],
        what: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._read = read
        self._what = what
        self._clock = clock  # monotonic, in seconds
        self._lock = threading.Lock()
        self._looked = clock()
        self._stamp = _stamp(path)  # before the file is read: a change during it counts
        self._value = read(path)
        self._version = 1
        self._wrong = ""

    @property
    def value(self) -> Value:
        """What the file says now."""
        self._look()
        return self._value

    @property
    def version(self) -> int:
        """Counts how often the file was read with success."""
        self._look()
        return self._version

    def _look(self) -> None:
        if self._clock() - self._looked < LOOK_SECONDS:
            return
        with self._lock:
            self._looked = self._clock()
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            try:
                value = self._read(self._path)
            except UserError as error:
                if str(error) != self._wrong:
                    self._wrong = str(error)
                    log.error("%s stay as they were: %s", self._what, error)
                return
            self._stamp, self._wrong = stamp, ""
            self._value = value
            self._version += 1
            log.info("%s were read again from %s", self._what, self._path)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
