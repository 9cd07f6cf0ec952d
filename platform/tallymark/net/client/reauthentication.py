"""Re-authentication: logging in again on an open connection, before its session ends (KIP-368).

::

    lifetime known ── at 85 to 95 % of it ──► a token ──► hold ──► handshake, tokens ──► release
                                 ▲               │ cannot be had              │ refused
                                 └── a bit later ┘                            └► closed

Between the handshake and the last token a broker of Apache Kafka takes nothing else on the
connection, so what is to be sent meanwhile is held, in its order.
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
"""Parts of a session's lifetime; a random one between, so that not all come at once. Java's too."""
NOT_BEFORE: Final = 1.1
"""Seconds: brokers (Apache Kafka too) refuse a second log-in within one."""
SECONDS: Final = 20.0
"""For the token and the exchange, at least: as long as the session holds, answers that were asked
for before (a member's join may wait for minutes) may come first."""
_LONGEST_TIMER: Final = 30 * 24 * 3600.0


class Renewed(Protocol):
    """A connection that logs in again."""

    def hold(self) -> None:
        """Send nothing from here on, but by :meth:`submit_now`."""

    def release(self) -> None:
        """Send what was held."""

    def submit_now(self, message: Request[R], timeout: float, /) -> Awaitable[R]: ...

    def give_up(self, why: str, cause: BaseException) -> None:
        """Close."""


class Reauthentication:
    """For one connection; lives on its loop."""

    def __init__(self, connection: Renewed, credentials: SaslCredentials) -> None:
        self.times = 0
        """How often it succeeded."""
        self._connection = connection
        self._credentials = credentials
        self._holds = False
        self._lifetime = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def holds_for(self, lifetime: float) -> None:
        """The connection has logged in, for so many seconds; 0: for ever."""
        self._lifetime = lifetime
        if lifetime > NOT_BEFORE:  # a shorter session ends, and another connection is opened
            self._in(max(NOT_BEFORE, lifetime * random.uniform(EARLIEST, LATEST)))

    def submit(self, message: Request[R]) -> Awaitable[R]:
        """For the exchange alone."""
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
            else:  # there is no token now; the broker closes the connection if none comes
                self._in(max(1.0, self._lifetime * (1 - LATEST) / 2))
            return
        self.times += 1
        self._holds = False
        self._connection.release()
        self.holds_for(lifetime)


Held = Callable[[TallymarkError | None], None]
"""What is sent later (None), or ends with an error."""
