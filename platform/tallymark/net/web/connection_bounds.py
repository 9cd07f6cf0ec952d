"""The limits of one HTTP connection: counted when it is accepted, and closed when it is out of
time.

uvicorn's protocols wait for ever for the head of a request, for its body, and for a client that
does not read the response. A protocol that has :class:`BoundedConnection` before uvicorn's class
does not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from tallymark.net.limits.connection_quota import ConnectionQuota


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits for clients that need not have logged in. Times in seconds."""

    max_connections: int = 512
    """In total; and at most half of the descriptors that the process may open."""
    max_per_host: int = 384
    """From one address, so that others can still connect."""
    handshake: float = 10.0
    head: float = 10.0
    """Time for the head of a request, from the start of the connection or the first byte of a later
    request."""
    body: float = 30.0
    unread: float = 30.0
    """Time in which a client must read 64 KiB of a response."""


class BoundedConnection(asyncio.Protocol):
    """Comes before a protocol of uvicorn in the list of bases. ``counted``: the quota counts the
    connection already."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None

    def __init__(
        self, limits: WebLimits, quota: ConnectionQuota, counted: bool, **of_uvicorn: Any
    ) -> None:
        super().__init__(**of_uvicorn)
        self._limits = limits
        self._quota = quota
        self._counted = counted
        self._host = "?"
        self._awaited = ""
        self._clock: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._host = self.client[0] if self.client else "?"
        if not self._counted and self._quota.take(self._host) is not None:
            transport.abort()
            return
        self._counted = True
        self.wait_for("head")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._counted:
            self._counted = False
            self._quota.give_back(self._host)
        self.wait_for("")
        self._stop_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_unread()
        super().resume_writing()

    def wait_for(self, part: str) -> None:
        """Set the deadline for a part of a request: ``head``, ``body``, or "" while the client need
        not send anything. It runs from the first wait for that part; bytes that arrive do not
        extend it."""
        if part == self._awaited:
            return
        self._awaited = part
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if part:
            seconds = self._limits.head if part == "head" else self._limits.body
            self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
