"""Work on schemas: a request with a large schema waits in a thread, the others do not.

::

    small text --> the event loop: a budget of about a millisecond --> answer
                     | budget spent, or not small
                     v
                   light: 4 threads, a budget of some 20 ms ---------> answer
                     | budget spent
                     v
                   heavy: 1 thread, the full budget -----------------> answer, or 42201: too large
                     ^ too many wait already: 503, try again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from tallymark_schema_registry import errors
from tallymark_schema_registry.schemas import LIGHT, Budget, TooLargeError
from tallymark_schema_registry.schemas.budget import FULL

Result = TypeVar("Result")

INLINE: Final = 1_000
"""Steps on the event loop, about a millisecond. A thread would take longer to get to run."""
LIGHT_THREADS: Final = 4
MAX_WAITING: Final = 32
"""Requests that are in the heavy thread or wait for it."""
MAX_WAITING_OF_ONE: Final = 4
"""Of one client."""


class Workers:
    """One a registry. All but the calls themselves happens on the event loop."""

    def __init__(self) -> None:
        self._light = CapacityLimiter(LIGHT_THREADS)
        self._heavy = CapacityLimiter(1)
        self._waiting: Counter[str] = Counter()

    async def run(
        self,
        client: str,
        call: Callable[[Budget], Result],
        *,
        is_small: bool = False,
        steps: int = FULL,
    ) -> Result:
        """``call`` with a budget; once more from its start with a larger one if that was not
        enough, ``steps`` at most. It reads nothing that the event loop changes."""
        if is_small:
            try:
                return call(Budget(INLINE))
            except TooLargeError:
                pass
        try:
            return await to_thread.run_sync(partial(call, Budget(LIGHT)), limiter=self._light)
        except TooLargeError:
            pass
        if self._waiting.total() >= MAX_WAITING or self._waiting[client] >= MAX_WAITING_OF_ONE:
            raise errors.busy("too many large schemas are being compared")
        self._waiting[client] += 1
        try:
            return await to_thread.run_sync(partial(call, Budget(steps)), limiter=self._heavy)
        except TooLargeError as error:
            raise errors.too_much_work(str(error)) from error
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]
