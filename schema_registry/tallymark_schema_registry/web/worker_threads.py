"""Work on schemas, in threads of its own: a request with a large schema waits, the others do not.

::

    every request --> light: 4 threads, a budget of some 20 ms --> answer
                        | budget spent
                        v
                      heavy: 1 thread, the full budget ----------> answer, or 42201: too large
                        ^ too many wait already: 503, try again

Reading (schemas by id, subjects, levels) has threads of its own, so it never waits for either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from tallymark_schema_registry import errors
from tallymark_schema_registry.schemas import LIGHT, Budget, TooLargeError

Result = TypeVar("Result")

LIGHT_THREADS: Final = 4
MAX_WAITING: Final = 32
"""Requests that are in the heavy thread or wait for it."""
MAX_WAITING_OF_ONE: Final = 4
"""Of one client's address."""


class WorkerThreads:
    """One a registry. All but the calls themselves happens on the event loop."""

    def __init__(self) -> None:
        self._light = CapacityLimiter(LIGHT_THREADS)
        self._heavy = CapacityLimiter(1)
        self._waiting: Counter[str] = Counter()

    async def run(
        self, request: Request, call: Callable[..., Result], *arguments: str | None
    ) -> Result:
        """``call(*arguments, budget=...)`` in a thread; once more from its start if a small budget
        was not enough, so it must not have changed anything when it raises TooLargeError."""
        try:
            small = partial(call, *arguments, budget=Budget(LIGHT))
            return await to_thread.run_sync(small, limiter=self._light)
        except TooLargeError:
            pass
        client = request.client.host if request.client else ""
        if self._waiting.total() >= MAX_WAITING or self._waiting[client] >= MAX_WAITING_OF_ONE:
            raise errors.busy("too many large schemas are being compared")
        self._waiting[client] += 1
        try:
            full = partial(call, *arguments, budget=Budget())
            return await to_thread.run_sync(full, limiter=self._heavy)
        except TooLargeError as error:
            raise errors.too_much_work(str(error)) from error
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]
