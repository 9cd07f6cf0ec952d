"""Waits of the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

WAIT_SECONDS: Final = 120.0


def until(
    holds: Callable[[], bool], what: str, every: float = 0.05, seconds: float = WAIT_SECONDS
) -> None:
    """Return when it holds, looking ``every`` so many seconds. SystemExit where it does not come to
    be."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"after {seconds:g} s not yet: {what}")
        time.sleep(every)
