"""Requests, counted by operation and status, and how long they took. Pure but for the clock.

An answer from memory costs microseconds, so all that is done for it is to add 1 to its
:class:`Tally`, which was found when the answer was remembered. Only requests that went the
ordinary way are timed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark_schema_registry.web.asgi import App, Message, Receive, Send

BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper ends of the histogram's buckets, in seconds; one more is for all that took longer."""
OPERATION: Final = "operation"
"""In the state of a request: the path of its route, which the application fills in."""
NO_OPERATION: Final = "(none)"
"""The operation of requests that reach no route: unknown paths, and those that are refused."""
_LAST: Final = 1_000


@dataclass(slots=True)
class Tally:
    """How many requests had one operation, method and status."""

    count: int = 0


@dataclass(slots=True)
class Times:
    """``counts`` by bucket, the last one for all that took longer; ``total_s``: seconds in all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0


class Kind(NamedTuple):
    """What requests are counted by. ``operation``: the path of a route, with its placeholders."""

    method: str
    operation: str
    status: int


class RequestCounts:
    """Belongs to one event loop. Methods and operations come from routes, so there are few."""

    def __init__(self) -> None:
        self.times: dict[str, Times] = {}
        """By operation."""
        self.last_s: deque[float] = deque(maxlen=_LAST)
        """How long the last 1,000 took."""
        self._tallies: dict[Kind, Tally] = {}

    def tally(self, kind: Kind) -> Tally:
        """Where requests of a kind are counted."""
        found = self._tallies.get(kind)
        if found is None:
            found = self._tallies[kind] = Tally()
        return found

    def took(self, kind: Kind, seconds: float) -> None:
        """Count a request that went the ordinary way."""
        self.tally(kind).count += 1
        times = self.times.setdefault(kind.operation, Times())
        times.counts[bisect_left(BUCKETS_S, seconds)] += 1
        times.total_s += seconds
        self.last_s.append(seconds)

    def by_kind(self) -> Iterator[tuple[Kind, int]]:
        """All counts, sorted."""
        for kind, tally in sorted(self._tallies.items()):
            yield kind, tally.count


class CountRequests:
    """Wraps an ASGI ``app``, outside of all that may refuse a request."""

    def __init__(
        self, app: App, counts: RequestCounts, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app = app
        self._counts = counts
        self._clock = clock

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self._counts.took(kind_of(scope, status), self._clock() - began)


def kind_of(scope: Message, status: int) -> Kind:
    """The kind of a request, once it has been answered."""
    operation = scope.get("state", {}).get(OPERATION, NO_OPERATION)
    # A client may invent methods; those of routes are few.
    method = scope["method"] if operation != NO_OPERATION else NO_OPERATION
    return Kind(method, operation, status)
