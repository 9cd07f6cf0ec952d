"""Which records have a timestamp implausibly far from the time at which they are sent.

They are counted as *skewed*, and otherwise like all others, in the window of their timestamp: a
wrong clock loses nothing. A back-fill, which writes old records on purpose, is exempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SkewRule:
    """``limit_ms`` to either side is still plausible. ``exempt``: everything is."""

    limit_ms: int
    exempt: bool = False

    def plausible(self, low: int, high: int, now_ms: int) -> bool:
        """Whether no timestamp from ``low`` to ``high`` (ms) is skewed."""
        limit = self.limit_ms
        return self.exempt or (now_ms - limit <= low and high <= now_ms + limit)

    def count(self, timestamps: Sequence[int], now_ms: int) -> int:
        """How many of the timestamps (ms) are skewed; -1, which is none at all, is one of them."""
        if self.exempt:
            return 0
        low, high = now_ms - self.limit_ms, now_ms + self.limit_ms
        return sum(1 for timestamp in timestamps if not low <= timestamp <= high)
