"""Bounds a compaction: its share of the disk's bandwidth, and of the cleaner's time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Throttle:
    """Sleeps so that not more than ``bytes_per_second`` are spent over any longer time; -1 never
    sleeps. The clock is monotonic, in seconds."""

    def __init__(
        self,
        bytes_per_second: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()

    def spend(self, size: int) -> None:
        """Count bytes that were read or written; sleep where that was too fast."""
        if self._rate <= 0:
            return
        now = self._clock()
        self._free_at = max(self._free_at, now) + size / self._rate
        # Waits of less than a moment are saved up: each batch is small, and a sleep is not exact.
        if self._free_at - now > 0.05:
            self._sleep(self._free_at - now)


class TimeSlice:
    """How long a compaction works before the next one may, in seconds."""

    def __init__(
        self, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._began = clock()

    def begin(self) -> None:
        """A time slice starts now."""
        self._began = self._clock()

    @property
    def is_over(self) -> bool:
        """Whether the time slice has ended."""
        return self._clock() - self._began >= self._seconds
