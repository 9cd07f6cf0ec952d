"""Telling every now and then how far long work has come."""

from __future__ import annotations

import time
from collections.abc import Callable


class Progress:
    """Counts steps of ``total`` and calls ``tell`` with "3,400 of 10,000 logs" at most every
    ``seconds``; work that is over sooner says nothing."""

    def __init__(
        self,
        total: int,
        what: str,
        tell: Callable[[str], None],
        *,
        seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._what = what
        self._tell = tell
        self._seconds = seconds
        self._clock = clock
        self._done = 0
        self._told_at = clock()

    def step(self, count: int = 1) -> None:
        """So much more is done."""
        self._done += count
        now = self._clock()
        if now - self._told_at >= self._seconds:
            self._told_at = now
            self._tell(f"{self._done:,} of {self._total:,} {self._what}")
