"""Writes of one file by many threads: those that come while one is under way share the next one.

When a leader changes, hundreds of logs are cut at a time, and each needs its recovery point on the
disk before its files are touched; the file has the points of all of them. A caller returns when a
write that began after its call is done, by whichever thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count


class SharedWrites:
    """``write`` writes the present state, durably; one thread at a time calls it. Any thread may
    call the methods; they raise what ``write`` raises."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._asks = count(1)
        self._written = 0

    def now(self) -> None:
        """Write, also where nothing was asked for."""
        with self._lock:
            self._write_once()

    def wanted(self) -> None:
        """Return when the state as it is at the call, or a newer one, was written."""
        ask = next(self._asks)
        with self._lock:
            if self._written < ask:
                self._write_once()

    def _write_once(self) -> None:
        number = next(self._asks)  # before the state is read
        self._write()
        self._written = number
