"""Re-authentication: logging in again on an open connection, before its session ends (KIP-368).

::

    lifetime known ── at 85 to 95 % of it ──► a token ──► hold ──► handshake, tokens ──► release
                                 ▲               │ cannot be had              │ refused
                                 └── a bit later ┘                            └► closed

Between the handshake and the last token a broker of Apache Kafka accepts no other request on the
connection. So requests of that time are held, and sent afterwards in their order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from tallymark.errors import TallymarkError
from tallymark.net.sasl.mechanisms import SaslCredentials
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

EARLIEST, LATEST = 0.85, 0.95
"""A connection logs in again after a random part of its session's lifetime between these two, so
that not all do at once. As in the Java client."""
NOT_BEFORE: Final = 1.1
"""Seconds: brokers (Apache Kafka too) refuse a second log-in within one."""
SECONDS: Final = 20.0
"""The least time for the token and the exchange. It is more where the session is valid for longer:
responses to earlier requests (a member's join may wait for minutes) come first."""
_LONGEST_TIMER: Final = 30 * 24 * 3600.0


class Renewed(Protocol):
    """A connection that logs in again."""

    def hold(self) -> None:
        """From here on send only what :meth:`submit_now` is called with."""

    def release(self) -> None:
        """Send the requests that were held."""

    def submit_now(self, message: Request[R], timeout: float, /) -> Awaitable[R]: ...

    def give_up(self, why: str, cause: BaseException) -> None:
        """Close the connection."""


class Reauthentication:
    """Logs one connection in again; lives on the connection's loop."""

    def __init__(self, connection: Renewed, credentials: SaslCredentials) -> None:
        self.times = 0
        """How many log-ins after the first have succeeded."""
        self._connection = connection
        self._credentials = credentials
        self._holds = False
        self._lifetime = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def holds_for(self, lifetime: float) -> None:
        """The connection has logged in; its session is valid for ``lifetime`` seconds; 0: for
        ever."""
        self._lifetime = lifetime
        if lifetime > NOT_BEFORE:  # a shorter session ends, and another connection is opened
            self._in(max(NOT_BEFORE, lifetime * random.uniform(EARLIEST, LATEST)))

    def submit(self, message: Request[R]) -> Awaitable[R]:
        """Send a request at once, past those that are held; only the exchange uses it."""
        if not self._holds:
            self._holds = True
            self._connection.hold()
        return self._connection.submit_now(message, self._patience)

    @property
    def _patience(self) -> float:
        return max(SECONDS, self._lifetime * (1 - EARLIEST))

    def cancel(self) -> None:
        """The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._task is not asyncio.current_task(self._task.get_loop()):
            self._task.cancel()

    def _in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(seconds, _LONGEST_TIMER), self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        from tallymark.net.client.authentication import authenticate

        try:
            async with asyncio.timeout(self._patience):
                lifetime = await authenticate(self, self._credentials)
        except (TallymarkError, TimeoutError) as error:
            if self._holds:
                self._connection.give_up(f"logging in again failed: {error}", error)
            else:  # no token now; without one the broker closes the connection in the end
                self._in(max(1.0, self._lifetime * (1 - LATEST) / 2))
            return
        self.times += 1
        self._holds = False
        self._connection.release()
        self.holds_for(lifetime)


Held = Callable[[TallymarkError | None], None]
"""A held request: called with None to send it, or with the error with which it ends."""
