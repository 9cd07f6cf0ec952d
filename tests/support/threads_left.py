"""What threads a test leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eventually import eventually

WORKERS = ("asyncio_", "tallymark-flush_")
"""A broker in this process starts another worker of its pools when it needs one: they are its."""


@contextmanager
def no_thread_is_left() -> Iterator[None]:
    """What is started within has ended soon after. On a busy machine the last thread may still be
    at its last line."""
    before = set(threading.enumerate())
    yield
    eventually(
        lambda: all(t.name.startswith(WORKERS) for t in set(threading.enumerate()) - before),
        what="no thread is left",
    )
