"""Checks passwords of PLAIN, which must be hashed, without delaying other requests.

::

    proven before ── yes ─► accepted at once
          └── no ─► a known name? ── no ─► wrong, reported when a hash would be done
                          └── yes ─► LoginQueue ─► a thread hashes ─► right, or wrong and paid for

It has threads of its own, since the broker's other threads read disks. A proven password is
remembered as a digest under a key that is random for each process, together with the stored key:
after a change of the password the old one is no longer accepted. A wrong log-in is answered a fixed
time after its arrival (:data:`AT_LEAST_SECONDS`), so that the time does not reveal whether the name
exists.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

from tallymark.broker.security.login_queue import LoginQueue, Purse
from tallymark.broker.security.users import Users
from tallymark.net.sasl.scram import MIN_ITERATIONS, ScramCredential

THREADS: Final = 2
AT_LEAST_SECONDS: Final = 0.25
"""Least time from a log-in to its refusal: more than the hashes of an address that floods us with
expensive ones are behind (0.17 s at most in a search of the property that holds this)."""
WRONG_PER_SECOND: Final = 100
"""Wrong passwords that are hashed in a second (of :data:`~tallymark.net.sasl.scram.MIN_ITERATIONS`;
a hash of twice the iterations counts twice): 40 % of a core."""
_MAX_PROVEN: Final = 10_000


class _Waiting(NamedTuple):
    user: str
    password: str
    wanted: Callable[[], bool]
    outcome: asyncio.Future[bool]


class PasswordChecks:
    """Belongs to the event loop it is made on. ``users()`` returns the current users."""

    def __init__(
        self,
        users: Callable[[], Users],
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._users = users
        self._loop = asyncio.get_running_loop()
        self._threads = threads(THREADS, "tallymark-logins")
        self._idle = THREADS
        self._queue: LoginQueue[_Waiting] = LoginQueue()
        self._purse = Purse(WRONG_PER_SECOND, WRONG_PER_SECOND / 2, self._loop.time())
        self._timer: asyncio.TimerHandle | None = None
        self._key = secrets.token_bytes(32)
        self._proven: OrderedDict[str, bytes] = OrderedDict()
        self.hashed = 0
        """How many passwords were hashed."""

    @property
    def waiting(self) -> int:
        """How many log-ins wait for a hash."""
        return len(self._queue)

    async def fits(self, host: str, user: str, password: str, wanted: Callable[[], bool]) -> bool:
        """Whether the password is the user's, for a log-in from ``host``. A log-in that is no
        longer wanted (``wanted()`` is false) is not hashed. False is returned no earlier than
        :data:`AT_LEAST_SECONDS` after the call."""
        began = self._loop.time()
        held = self._users().password_credential(user)
        if held is not None and self._is_proven(user, password, held):
            return True
        if held is not None and await self._hashed(host, user, password, wanted):
            return True
        await asyncio.sleep(began + AT_LEAST_SECONDS - self._loop.time())
        return False

    def close(self) -> None:
        """Refuse all waiting log-ins. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        while len(self._queue):
            _set(self._queue.take().outcome, False)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _hashed(
        self, host: str, user: str, password: str, wanted: Callable[[], bool]
    ) -> bool:
        item = _Waiting(user, password, wanted, self._loop.create_future())
        dropped = self._queue.put(host, user, item)
        if dropped is not None:
            _set(dropped.outcome, False)
        self._go_on()
        return await item.outcome

    def _go_on(self) -> None:
        """Start hashes on idle threads, as far as the purse allows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle and len(self._queue):
            wait = self._purse.wait(self._loop.time())
            if wait > 0:
                self._timer = self._loop.call_later(wait, self._go_on)
                return
            self._begin(self._queue.take())

    def _begin(self, item: _Waiting) -> None:
        held = self._users().password_credential(item.user)
        if held is None or item.outcome.done() or not item.wanted():
            _set(item.outcome, False)
        elif self._is_proven(item.user, item.password, held):  # by an earlier log-in in the queue
            _set(item.outcome, True)
        else:
            self._idle -= 1
            self.hashed += 1
            work = self._loop.run_in_executor(self._threads, held.fits, item.password)
            work.add_done_callback(lambda done: self._end(item, held, done))

    def _end(self, item: _Waiting, held: ScramCredential, done: asyncio.Future[bool]) -> None:
        self._idle += 1
        fits = not done.cancelled() and done.exception() is None and done.result()
        if fits:
            self._proven[item.user] = self._digest(item.user, item.password, held)
            self._proven.move_to_end(item.user)
            if len(self._proven) > _MAX_PROVEN:
                self._proven.popitem(last=False)
        else:
            self._purse.pay(held.iterations / MIN_ITERATIONS, self._loop.time())
        _set(item.outcome, fits)
        self._go_on()

    def _is_proven(self, user: str, password: str, held: ScramCredential) -> bool:
        known = self._proven.get(user)
        return known is not None and hmac.compare_digest(known, self._digest(user, password, held))

    def _digest(self, user: str, password: str, held: ScramCredential) -> bytes:
        parts = (user.encode(), held.stored_key, password.encode())
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, framed, "sha256")


def _set(outcome: asyncio.Future[bool], fits: bool) -> None:
    if not outcome.done():
        outcome.set_result(fits)
