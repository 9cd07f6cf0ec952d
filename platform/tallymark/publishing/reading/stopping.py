"""When a publishing run ends by itself."""

from __future__ import annotations

import threading
import time


class StopAfter:
    """Set when ``event`` is (a signal came), or when ``duration_s`` seconds have passed."""

    def __init__(self, event: threading.Event, duration_s: float | None = None) -> None:
        self._event = event
        self._end = None if duration_s is None else time.monotonic() + duration_s

    @property
    def signalled(self) -> bool:
        return self._event.is_set()

    def is_set(self) -> bool:
        return self._event.is_set() or self._left() == 0

    def wait(self, timeout: float) -> bool:
        left = self._left()
        self._event.wait(timeout if left is None else min(timeout, left))
        return self.is_set()

    def _left(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - time.monotonic())
