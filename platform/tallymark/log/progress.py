"""Reports the progress of long work from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Progress:
    """Counts steps of ``total`` and calls ``report`` with "3,400 of 10,000 logs" at most every
    ``seconds``; work that ends sooner reports nothing."""

    def __init__(
        self,
        total: int,
        what: str,
        report: Callable[[str], None],
        *,
        seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._what = what
        self._report = report
        self._seconds = seconds
        self._clock = clock
        self._done = 0
        self._reported_at = clock()

    def step(self, count: int = 1) -> None:
        """Count steps that are done."""
        self._done += count
        now = self._clock()
        if now - self._reported_at >= self._seconds:
            self._reported_at = now
            self._report(f"{self._done:,} of {self._total:,} {self._what}")
