"""The interfaces of a handler, which answers requests, and of the connection that it sees."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from tallymark.net.sasl.server_session import SaslSession
from tallymark.net.server.responses import Payload
from tallymark.protocol.frames import RequestHeader

BARE: Final = RequestHeader(-1, 0, 0, None)
"""The header that a handler gets with a frame that has none."""

Answer: TypeAlias = bytes | Payload | None
"""None: the request has no response (Produce with acks=0)."""


class Connection(Protocol):
    """One client of a listener, as a handler sees it."""

    peer: str
    """``host:port`` of the client."""
    host: str
    """The address of the client."""
    principal: str
    """The user that TLS or SASL has authenticated; ``User:ANONYMOUS`` without either."""
    sasl: SaslSession | None
    """The authentication of the connection, on listeners that ask for one."""
    listener: str
    """The name of the listener that accepted the connection."""
    bare_frames: bool
    """Whether frames have no request header and go to the handler whole, under :data:`BARE` (the
    oldest form of SASL)."""
    closed: bool

    def finish(self) -> None:
        """Stop reading; close once every request read so far is answered."""

    def abort(self) -> None:
        """Close at once; answers that are not written yet are dropped."""

    def allow_frames(self, max_bytes: int) -> None:
        """From here on a request may have ``max_bytes`` bytes."""

    def end_in(self, seconds: float | None) -> None:
        """Stop reading after ``seconds``, and close: requests read before get a moment to be
        answered. A later call replaces an earlier one. None: the connection stays open."""

    def mute(self, seconds: float) -> None:
        """Handle and read nothing more for ``seconds``; answers are still sent (KIP-219)."""


class Handler(Protocol):
    """Answers one request. ``body`` is the frame after its header; ``decode(cls,
    header.api_version, body)`` decodes it. May return the answer or an awaitable of it.

    Handlers of one connection are called in the order of its requests. A coroutine runs up to its
    first ``await`` before the next request is handled (on Python 3.11: before the next
    coroutine). An exception of a handler closes the connection; errors for the client are
    responses.
    """

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: Connection, /
    ) -> Answer | Awaitable[Answer]: ...


OnClose: TypeAlias = Callable[[Connection], None]


def run(answer: Awaitable[Answer]) -> asyncio.Future[Answer]:
    """A future of the answer that a handler will return. A coroutine runs up to its first
    suspension at once, where the Python version can do that."""
    if isinstance(answer, asyncio.Future):
        return answer
    work = answer if inspect.iscoroutine(answer) else _await(answer)
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
    return asyncio.get_running_loop().create_task(work)


async def _await(answer: Awaitable[Answer]) -> Answer:
    return await answer
