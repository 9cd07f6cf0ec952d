"""The requests of one connection that wait for their response, each with a deadline.

Two kinds, by their correlation ids: a *future* with a timer of its own, and a *callback* of callers
with thousands of requests a second, all of which share one timer::

    futures     7 ─► future, timer          9 ─► future, timer
    callbacks         8 ─► answered, deadline         10 ─► answered, deadline
                      └── the oldest: one timer, at its deadline

Each one ends once: with its response, or with the error of the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tallymark.errors import TallymarkError
from tallymark.net.client.meter import Meter

Answered: TypeAlias = Callable[[Any, TallymarkError | None], None]
"""``answered(response, error)``: one of them is None."""


class InFlightRequests:
    """Belongs to one event loop. ``timed_out(name, timeout)`` is called when a request is late: its
    name and how many seconds it was given."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timed_out: Callable[[str, float], None]
    ) -> None:
        self._loop = loop
        self._timed_out = timed_out
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._callbacks: dict[int, tuple[Answered, float, str, float]] = {}
        """Correlation id -> callback, deadline, name and timeout of the request; oldest first."""
        self._watch: asyncio.TimerHandle | None = None

    def add(
        self, correlation_id: int, future: asyncio.Future[Any], name: str, timeout: float
    ) -> None:
        """A request was sent whose response goes to ``future``."""
        self._futures[correlation_id] = future
        self._timers[correlation_id] = self._loop.call_later(
            timeout, self._timed_out, name, timeout
        )

    def add_callback(
        self, correlation_id: int, answered: Answered, name: str, timeout: float
    ) -> None:
        """A request was sent whose response goes to ``answered``."""
        deadline = self._loop.time() + timeout
        self._callbacks[correlation_id] = (answered, deadline, name, timeout)
        if self._watch is None:
            self._watch = self._loop.call_at(deadline, self._look_at_deadlines)

    def complete(self, responses: Sequence[tuple[int, Any]], meter: Meter | None) -> bool:
        """Pass on responses that arrived together: (correlation id, response). Returns whether one
        of them was for a callback."""
        callbacks = self._callbacks
        any_callback = False
        for correlation_id, response in responses:
            if meter is not None:
                meter.answered(correlation_id)
            if correlation_id in callbacks:
                callbacks.pop(correlation_id)[0](response, None)
                any_callback = True
                continue
            self._timers.pop(correlation_id).cancel()
            future = self._futures.pop(correlation_id)
            if not future.done():
                future.set_result(response)
        return any_callback

    def fail(self, error: TallymarkError) -> None:
        """End all requests with ``error``; callbacks are called in the loop's next turn."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_exception(error)
        callbacks, self._callbacks = self._callbacks, {}
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if callbacks:
            self._loop.call_soon(_fail_all, [one[0] for one in callbacks.values()], error)

    def _look_at_deadlines(self) -> None:
        """Time out the oldest callback if it is late: it is the first one, since timeouts are
        alike. If it is not late yet, check again at its deadline."""
        self._watch = None
        if not self._callbacks:
            return
        _, deadline, name, timeout = next(iter(self._callbacks.values()))
        if deadline <= self._loop.time():
            self._timed_out(name, timeout)
        else:
            self._watch = self._loop.call_at(deadline, self._look_at_deadlines)


def _fail_all(everyone: Sequence[Answered], error: TallymarkError) -> None:
    for answered in everyone:
        answered(None, error)
