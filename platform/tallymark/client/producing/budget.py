"""The bytes that a producer's batches may hold (``buffer_memory``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class MemoryBudget:
    """A number of bytes that batches reserve and give back. ``waiting`` counts who has to wait:
    threads in :meth:`reserve` and those who :meth:`watch`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting = 0
        self._room = threading.Condition(threading.Lock())
        self._watchers: list[Callable[[], object]] = []

    def try_reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes if they are free and no thread waits for some."""
        with self._room:
            if self.waiting > len(self._watchers) or self.used + size > self.limit:
                return False
            self.used += size
            return True

    def force_reserve(self, size: int) -> None:
        """Reserve though it may exceed the limit: for callers that must not wait."""
        with self._room:
            self.used += size

    def reserve(self, size: int, deadline: float) -> bool:
        """Wait until ``size`` bytes are free, at most until ``deadline`` (monotonic seconds)."""
        with self._room:
            self.waiting += 1
            try:
                while self.used + size > self.limit:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._room.wait(left):
                        return False
                self.used += size
                return True
            finally:
                self.waiting -= 1

    def release(self, size: int) -> None:
        """Give bytes back."""
        with self._room:
            self.used -= size
            if self.waiting:
                self._room.notify_all()
                watchers = tuple(self._watchers)
            else:
                watchers = ()
        for watcher in watchers:
            watcher()

    def watch(self, watcher: Callable[[], object]) -> None:
        """Wait for room without blocking a thread: ``watcher`` is called whenever bytes are given
        back (in the thread that does it; quick, and it must not raise) until :meth:`unwatch`.
        Nothing is kept free for a watcher."""
        with self._room:
            self.waiting += 1
            self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], object]) -> None:
        """Wait no longer."""
        with self._room:
            self.waiting -= 1
            self._watchers.remove(watcher)
