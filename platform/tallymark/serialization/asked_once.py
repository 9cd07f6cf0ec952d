"""What a program asks the registry for by a key: once for all its threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Hashable, Sized
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, Generic, TypeVar

from tallymark.serialization.errors import RegistryError

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_FIRST_S: Final = 0.1
_LONGEST_S: Final = 30.0
"""How long a refusal is remembered at first, and at most."""
_REFUSALS: Final = 10_000
"""Refused keys that are remembered."""
_BURST: Final = 100
_PER_SECOND: Final = 100
"""Refused keys in a second, and at once, after which further ones wait."""


class AskedOnce(Generic[Key, Value]):
    """Answers by key, those that came first dropped when their sizes exceed ``capacity``.

    Threads that want the same key at the same moment ask once; a thread that wants another key does
    not wait for them. A key that the registry refuses (4xx) is asked for again only after a while,
    twice as long each time: a topic full of messages with a wrong id costs a few requests a minute.
    Where each has another id, it costs at most 100 requests a second.
    """

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._known: dict[Key, Value] = {}
        self._sizes: dict[Key, int] = {}
        self._size = 0
        self._open: dict[Key, Future[Value]] = {}
        self._lock = threading.Lock()
        self._refusals: _Refusals[Key] = _Refusals(clock)
        self._generation = 0

    def get(self, key: Key, ask: Callable[[], Value], sized: Callable[[Value], Sized]) -> Value:
        """The answer to ``key``; ``ask`` gets it where it is not known, and its size is the length
        of ``sized`` of it. Raises what ``ask`` raises."""
        while True:
            known = self._known.get(key)
            if known is not None:
                return known
            with self._lock:
                known = self._known.get(key)
                if known is not None:
                    return known
                flight = self._open.get(key)
                if flight is None:
                    self._refusals.check(key)
                    mine = self._open[key] = Future()
                    generation = self._generation
                    break
            with suppress(_Interrupted):
                return flight.result()
        value = self._ask(key, ask, mine)
        with self._lock:
            del self._open[key]
            self._refusals.forget(key)
            if generation == self._generation:
                self._keep(key, value, len(sized(value)))
        mine.set_result(value)
        return value

    def forget(self) -> None:
        """Ask for everything anew; also what is being asked for now, as it may be outdated."""
        with self._lock:
            self._generation += 1
            self._known = {}
            self._sizes = {}
            self._size = 0
            self._refusals.clear()

    def _ask(self, key: Key, ask: Callable[[], Value], mine: Future[Value]) -> Value:
        try:
            self._refusals.wait()
            return ask()
        except BaseException as error:
            with self._lock:
                del self._open[key]
                if isinstance(error, RegistryError) and _lasts(error):
                    self._refusals.add(key, error)
            # What interrupts this thread (KeyboardInterrupt) is not for those that wait for it.
            mine.set_exception(error if isinstance(error, Exception) else _Interrupted())
            raise

    def _keep(self, key: Key, value: Value, size: int) -> None:
        self._known[key] = value
        self._sizes[key] = size
        self._size += size
        while self._size > self._capacity and len(self._known) > 1:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._size -= self._sizes.pop(oldest)


class _Interrupted(Exception):
    """The thread that asked did not end it."""


class _Refusals(Generic[Key]):
    """Keys that the registry refused, with the error and until when it holds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._of: dict[Key, tuple[RegistryError, float, float]] = {}
        self._left = float(_BURST)
        self._counted = clock()

    def check(self, key: Key) -> None:
        """Raises the error that ``key`` met, while it holds."""
        found = self._of.get(key)
        if found is not None and self._clock() < found[1]:
            error = found[0]
            raise RegistryError(error.status, error.code, error.message, error.request)

    def add(self, key: Key, error: RegistryError) -> None:
        """``key`` was refused with ``error``."""
        before = self._of.pop(key, None)
        for_s = _FIRST_S if before is None else min(_LONGEST_S, 2 * before[2])
        now = self._clock()
        self._of[key] = error, now + for_s * random.uniform(0.8, 1.2), for_s
        if len(self._of) > _REFUSALS:
            del self._of[next(iter(self._of))]
        self._left = min(_BURST, self._left + (now - self._counted) * _PER_SECOND) - 1
        self._counted = now

    def forget(self, key: Key) -> None:
        self._of.pop(key, None)

    def clear(self) -> None:
        self._of.clear()

    def wait(self) -> None:
        """Let so much time pass that no more than 100 keys a second are refused."""
        if self._left < 0:
            time.sleep(min(1.0, -self._left / _PER_SECOND))


def _lasts(error: RegistryError) -> bool:
    """The same question gets the same answer, for a while at least."""
    return 400 <= error.status < 500 and error.status not in (408, 429)
