"""What flows through a publishing run: lines, rows, bad input, and when to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One future event. ``time_ms`` is when it happened (ms since the epoch), None if the source
    does not say; ``raw`` is its text in the input, for the rejects file."""

    number: int
    time_ms: int | None
    values: dict[str, Any]
    raw: str


@dataclass(frozen=True, slots=True)
class Bad:
    """Input that is no row, and why."""

    number: int
    reason: str
    raw: str


Lines: TypeAlias = Iterator[Line | Bad | None]
"""None means: nothing to read for the moment. It lets the loop look at the clock."""

Rows: TypeAlias = Iterator[Row | Bad | None]


class Stop(Protocol):
    """When to end: a signal, or a duration that has passed."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool:
        """Sleep, at most ``timeout`` seconds; True if it is time to end."""
        ...


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
