"""What threads a test leaves behind."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from eventually import eventually

BROKER_POOLS = (
    "tallymark-cleaner",
    "tallymark-controller",
    "tallymark-cut",
    "tallymark-epochs",
    "tallymark-flush",
    "tallymark-logins",
    "tallymark-prepare",
    "tallymark-states",
    "tallymark-upkeep",
    "tallymark-zookeeper",
)
"""A broker in this process starts a worker of a pool when there is work for it: the one that writes
the high watermarks five seconds after the broker's start, in whatever test runs then. They are the
broker's, which stops them; what a test leaves behind has another name."""
_OTHERS = (*(f"{pool}_" for pool in BROKER_POOLS), "asyncio_")


@contextmanager
def no_thread_is_left(*, seconds: float = 60.0) -> Iterator[None]:
    """What is started within has ended soon after. On a busy machine the last thread may still be
    at its last line. AssertionError: some run on, with their names and where each is."""
    before = set(threading.enumerate())
    yield

    def left() -> list[threading.Thread]:
        new = (t for t in threading.enumerate() if t not in before and t.is_alive())
        return [t for t in new if not t.name.startswith(_OTHERS)]

    try:
        eventually(lambda: not left(), seconds=seconds, what="no thread is left")
    except AssertionError:
        places = "\n".join(map(_place, left()))
        if places:
            raise AssertionError(f"left after {seconds} s:\n{places}") from None


def _place(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame else "  (it has no stack)\n"
    return f"{thread.name}:\n{stack}"
