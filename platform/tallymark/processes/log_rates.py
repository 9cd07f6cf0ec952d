"""Bounds on what a process logs, whatever makes it write.

Most lines that a client can cause are limited where they are written, by the client's address
(:mod:`tallymark.net.limits.log_rate`); but an attacker has many addresses, and lines are added. So
every *place* in the code that logs has an allowance of its own: :data:`BURST` lines at once, one a
second in the long run. What is left out is counted in the next line of that place, and other places
do not notice. And no line is longer than :data:`MAX_TEXT`, nor its traceback.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

BURST: Final = 500
PER_SECOND: Final = 1.0
MAX_TEXT: Final = 8192


@dataclass(slots=True)
class _Allowance:
    """A token bucket (Turner, 1986): ``left`` lines at the time ``at``, ``held`` since the last."""

    left: float
    at: float
    held: int = 0


class PlaceRates(logging.Filter):
    """For a handler. ``clock`` is monotonic, in seconds; any thread may log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], _Allowance] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; it may be changed."""
        held = self._passes((record.pathname, record.lineno))
        if held is None:
            return False
        text = record.getMessage()
        if len(text) > MAX_TEXT:
            record.msg, record.args = shortened(text), None
        if held:
            record.msg = f"{record.msg}; and {held} more like it left out"
        return True

    def _passes(self, place: tuple[str, int]) -> int | None:
        with self._lock:
            now = self._clock()
            found = self._places.get(place)
            if found is None:
                found = self._places[place] = _Allowance(BURST, now)
            found.left = min(BURST, found.left + (now - found.at) * PER_SECOND)
            found.at = now
            if found.left < 1:
                found.held += 1
                return None
            found.left -= 1
            held, found.held = found.held, 0
            return held


def shortened(text: str) -> str:
    """The text; of one that is too long for a line of log, its beginning and its end."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"
