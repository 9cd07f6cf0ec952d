"""Log-ins over HTTP: HTTP Basic (RFC 7617), for browsers and for clients.

Checking a password takes milliseconds on purpose, so two threads do it, and the work that a client
can cause there is bounded::

    credentials that were right, used in the last 15 minutes -> accepted, without hashing
    the same that are being hashed -> their result
    else, of one name from one address   10 were wrong within 10 s  -> 429
                                         4 are not answered -> 429
    else   a known name, and fewer than 32 wait for a thread -> hashed: accepted, or 401
           an unknown name -> 401

Other users at the same address can log in meanwhile. A refusal waits for its turn
(:mod:`tallymark.net.limits.failed_login_delay`), and at least as long as a hash takes, so its time
reveals nothing about the user name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from tallymark.net.addresses import sender
from tallymark.net.limits.failed_login_delay import FailedLoginDelay
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.web.access_log import App, Message, Receive, Send
from tallymark.net.web.refusal import send_refusal
from tallymark.net.web.remembered import Remembered

log = logging.getLogger(__name__)

THREADS: Final = 2
MAX_WAITING: Final = 32
MAX_WAITING_OF_ONE: Final = 4
MAX_HELD: Final = 1_000
"""Refusals that may wait for their turn, those of clients that have disconnected included; further
ones are sent at once."""
AT_LEAST_SECONDS: Final = 0.1
"""Least time from a log-in to its refusal; longer than it takes to hash a password."""
MAX_WRONG: Final = 10
WRONG_SECONDS: Final = 10.0
OPEN_PATHS: Final = frozenset(("/healthz", "/health"))
"""Paths without a log-in: a program that checks the health of processes has no password."""
CHALLENGE: Final = 'Basic realm="tallymark", charset="UTF-8"'

_MAX_GUESSED: Final = 10_000
_MAX_CREDENTIALS: Final = 4_096


class Passwords(Protocol):
    """Checks passwords: :class:`~.users.WebUsers`, or the users of a broker."""

    @property
    def version(self) -> object:
        """A value that differs after users have changed."""
        ...

    def knows(self, name: str) -> bool:
        """Whether there is such a user; returns at once."""
        ...

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's; takes milliseconds."""
        ...


class Attempt(NamedTuple):
    """The result of one log-in: ``status`` 200, 401 or 429, and the user where it is 200."""

    status: int
    user: str = ""


class _Guessed(NamedTuple):
    sender: str
    name: str


class BasicLogin:
    """Checks log-ins. Belongs to one event loop. ``clock`` is monotonic, in seconds;
    ``sleep(seconds)`` waits; ``at_least`` as :data:`AT_LEAST_SECONDS`."""

    def __init__(
        self,
        users: Passwords,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        at_least: float = AT_LEAST_SECONDS,
    ) -> None:
        self._users = users
        self._clock = clock
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web-login")
        self._at_least = at_least
        self._right: Remembered[str] = Remembered(clock)
        self._checks: dict[bytes, asyncio.Task[bool]] = {}
        self._version: object = None
        self._pace = FailedLoginDelay()
        self._hashing = 0
        self._waiting: Counter[_Guessed] = Counter()
        self._wrong: OrderedDict[_Guessed, tuple[float, int]] = OrderedDict()
        self._log_rate = LogRate()

    def around(self, app: App) -> App:
        """``app`` for those who have logged in."""
        return WebLogin(app, self)

    def remembered(self, authorization: bytes) -> str | None:
        """The user whose credentials these are, if :meth:`check` found so lately. Costs
        microseconds."""
        version = self._users.version
        if version != self._version:
            self._right.clear()
            self._checks.clear()
            self._version = version
        return self._right.get(self._right.digest(authorization))

    async def check(self, authorization: bytes, host: str) -> Attempt:
        """Check one log-in: ``authorization`` is the header as received, ``host`` the address of
        the client."""
        found = _credentials(authorization)
        if found is None:
            return Attempt(401)
        user = self.remembered(authorization)
        if user is not None:
            return Attempt(200, user)
        began = self._clock()
        due = max(self._pace.come(host, began), began + self._at_least)
        guessed = _Guessed(sender(host), found[0])
        self._waiting[guessed] += 1
        try:
            digest = self._right.digest(authorization)
            status = await self._judged(guessed, found[1], digest)
            if status == 200:
                self._pace.let_in(host, self._clock())
                return Attempt(200, found[0])
            if self._waiting.total() <= MAX_HELD:
                await self._sleep(due - self._clock())
            return Attempt(status)
        finally:
            self._waiting[guessed] -= 1
            if not self._waiting[guessed]:
                del self._waiting[guessed]

    async def _judged(self, guessed: _Guessed, password: str, digest: bytes) -> int:
        same = self._checks.get(digest)
        if self._too_many_wrong(guessed):
            return 429
        if same is None and self._waiting[guessed] > MAX_WAITING_OF_ONE:
            return 429
        if self._users.knows(guessed.name):
            if same is None:
                if self._hashing >= MAX_WAITING:
                    return 429
                same = self._begin(guessed.name, password, digest)
            if await asyncio.shield(same):
                return 200
        self._note_wrong(guessed)
        return 401

    def _begin(self, name: str, password: str, digest: bytes) -> asyncio.Task[bool]:
        version = self._version

        def ended(_task: asyncio.Task[bool]) -> None:
            """Before any of those who wait goes on: the credentials are being hashed, or known."""
            if self._checks.get(digest) is task:
                del self._checks[digest]
            is_right = not task.cancelled() and task.exception() is None and task.result()
            if is_right and version == self._users.version:  # else it may be the old password
                self._right.put(digest, name)

        task = asyncio.create_task(self._hashed(name, password))
        self._checks[digest] = task
        task.add_done_callback(ended)
        return task

    async def _hashed(self, name: str, password: str) -> bool:
        self._hashing += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._users.fits, name, password)
        finally:
            self._hashing -= 1

    def _too_many_wrong(self, guessed: _Guessed) -> bool:
        since, count = self._wrong.get(guessed, (0.0, 0))
        return count >= MAX_WRONG and self._clock() - since < WRONG_SECONDS

    def _note_wrong(self, guessed: _Guessed) -> None:
        now = self._clock()
        since, count = self._wrong.get(guessed, (now, 0))
        if now - since >= WRONG_SECONDS:
            since, count = now, 0
        self._wrong[guessed] = since, count + 1
        if len(self._wrong) > _MAX_GUESSED:
            self._wrong.popitem(last=False)
        held = self._log_rate.passes(guessed.sender)
        if held is not None:
            log.warning(
                "log-in refused from=%s user=%r held_back=%d",
                *(guessed.sender, guessed.name[:100], held),
            )


class WebLogin:
    """Wraps ``app``: only clients that have logged in reach it, except for :data:`OPEN_PATHS`."""

    def __init__(self, app: App, login: BasicLogin) -> None:
        self._app = app
        self._login = login

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))
        client = scope.get("client")
        host = client[0] if client else "?"
        attempt = await self._login.check(headers.get(b"authorization", b""), host)
        if attempt.status == 200:
            await self._app(scope, receive, send)
            return
        text, more = refused(attempt.status)
        answer = [(name.lower().encode(), value.encode()) for name, value in more.items()]
        await send_refusal(send, headers, attempt.status, text, answer)


def refused(status: int) -> tuple[str, dict[str, str]]:
    """The text and the headers of a response that refuses a client."""
    if status == 429:
        return "too many log-ins are being checked: try again", {"Retry-After": "2"}
    return "log in with a user name and a password", {"WWW-Authenticate": CHALLENGE}


def _credentials(authorization: bytes) -> tuple[str, str] | None:
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() != b"basic" or len(value) > _MAX_CREDENTIALS:
        return None
    try:
        name, colon, password = (
            base64.b64decode(value.strip(), validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError):
        return None
    return (name, password) if name and colon else None
