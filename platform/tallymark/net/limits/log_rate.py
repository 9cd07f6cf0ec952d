"""Limits log lines that any client can cause to one of a kind in ten seconds, so that they do not
fill the disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

EVERY_SECONDS: Final = 10.0
_MOST_KEYS: Final = 10_000


class LogRate:
    """Lets each key through once in ``every`` seconds, and counts what it held back meanwhile.
    ``clock`` is monotonic, in seconds."""

    def __init__(
        self, every: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every = every
        self._clock = clock
        self._last: dict[Hashable, float] = {}
        self._held: Counter[Hashable] = Counter()

    def passes(self, key: Hashable) -> int | None:
        """How many were held back since the last one that passed; None: hold this one back, too."""
        now = self._clock()
        last = self._last.get(key)
        if last is not None and now - last < self._every:
            self._held[key] += 1
            return None
        if len(self._last) >= _MOST_KEYS:
            self._last.clear()
            self._held.clear()
        self._last[key] = now
        return self._held.pop(key, 0)
