"""The clocks, in milliseconds. Shells read them; what decides takes ``now`` as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Wall clock: ms since the epoch, UTC."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """A monotonic clock: ms since some moment, for timeouts and pauses."""
    return time.monotonic_ns() // 1_000_000


def fine_monotonic_ms() -> float:
    """As :func:`monotonic_ms` with fractions, for what takes less than a millisecond."""
    return time.monotonic_ns() / 1_000_000


def thread_ms() -> float:
    """Processor time of this thread, ms."""
    return time.thread_time_ns() / 1_000_000
