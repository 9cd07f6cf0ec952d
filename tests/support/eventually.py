"""Waiting for what other threads and processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def eventually(
    holds: Callable[..., T],
    *arguments: Any,
    seconds: float = 60.0,
    what: str = "it holds",
    every: float = 0.02,
) -> T:
    """Return what ``holds(*arguments)`` does once that is true, looking ``every`` so many seconds.
    How soon that is is not judged: the ``seconds`` are for a machine that is busy."""
    deadline = time.monotonic() + seconds
    while not (found := holds(*arguments)):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain until {what}"
        time.sleep(every)
    return found
