"""Flow control of a connection: whether the broker reads as fast as we write, by the events of
asyncio's transport.

::

    writable ── pause_writing: the transport's buffer is full ──► writers wait, the timer runs
        ▲                                                             │             │
        └──────────────── resume_writing: there is room ──────────────┘             └► unread
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

UNREAD_TIMEOUT: Final = 30.0
"""A connection without room for more bytes for so many seconds is closed."""


class FlowControl:
    """``unread`` is called, with the seconds, when the broker has read nothing for so long. Belongs
    to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, unread: Callable[[float], None]) -> None:
        self.writable = asyncio.Event()
        """Set while there is room; wait for it before writing."""
        self.writable.set()
        self._loop = loop
        self._unread = unread
        self._timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """There is no room."""
        self.writable.clear()
        self._timer = self._loop.call_later(UNREAD_TIMEOUT, self._unread, UNREAD_TIMEOUT)

    def resume_writing(self) -> None:
        """There is room; or the connection is over, and writers must get its error."""
        self.writable.set()
        if self._timer is not None:
            self._timer.cancel()
