"""The bytes that a producer's batches may hold (``buffer_memory``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_WORTH_WAKING: Final = 8
"""Threads that wait are woken when one part in so many is free."""
_FIRST_LOOK: Final = 0.002
_LONGEST_LOOK: Final = 0.05
"""Seconds after which they look by themselves whether what they need is free: at first, at last."""


class BufferMemory:
    """A number of bytes that batches reserve and give back. ``waiting`` counts what has to wait:
    threads in :meth:`reserve` and watchers (:meth:`watch`).

    A thread is not woken for each batch that is given back: it would fill one, wait again, and
    these two changes of threads would cost more than the batch. It is woken when there is room for
    many; where that does not come, because one partition is stuck, it looks now and then.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting = 0
        self._low = limit - limit // _WORTH_WAKING
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._watchers: list[Callable[[], object]] = []

    def try_reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes if they are free and no thread waits for some."""
        with self._lock:
            if self.waiting > len(self._watchers) or self.used + size > self.limit:
                return False
            self.used += size
            return True

    def force_reserve(self, size: int) -> None:
        """Reserve though it may exceed the limit: for callers that must not wait."""
        with self._lock:
            self.used += size

    def reserve(self, size: int, deadline: float) -> bool:
        """Wait until ``size`` bytes are free, at most until ``deadline`` (monotonic seconds)."""
        with self._room:
            self.waiting += 1
            look = _FIRST_LOOK
            try:
                while self.used + size > self.limit:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return False
                    self._room.wait(min(left, look))
                    look = min(2 * look, _LONGEST_LOOK)
                self.used += size
                return True
            finally:
                self.waiting -= 1

    def release(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.used -= size
            if not self.waiting:
                return
            if self.used <= self._low:
                self._room.notify_all()
            watchers = tuple(self._watchers)
        for watcher in watchers:
            watcher()

    def watch(self, watcher: Callable[[], object]) -> None:
        """Wait for room without blocking a thread: ``watcher`` is called whenever bytes are given
        back (in the thread that does it; quick, and it must not raise) until :meth:`unwatch`.
        Nothing is kept free for a watcher."""
        with self._lock:
            self.waiting += 1
            self._watchers.append(watcher)

    def unwatch(self, watcher: Callable[[], object]) -> None:
        """Wait no longer."""
        with self._lock:
            self.waiting -= 1
            self._watchers.remove(watcher)
