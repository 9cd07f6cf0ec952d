"""The memory of connections that are closed.

asyncio's transports, its TLS and our own protocols refer to each other, so what a connection held
(0.3 MB with TLS, some kilobytes without) is freed by Python's garbage collector only. That counts
objects and not bytes: with some forty objects for each connection it comes far too late. A broker
at which clients came and went with TLS grew to thirty times its size. So it is called here, after
so many connections, and seldom enough that it takes a tenth of the time at most.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

PLAIN: Final = 1
TLS: Final = 20
"""How much a closed connection counts."""
ENOUGH: Final = 2_000
"""Of that: what is not freed yet is 30 MB or less, but where collecting takes long."""
_PART: Final = 10
"""Of the time, collecting takes one in so many."""


class ClosedConnections:
    """Counts what was closed, and collects. ``collect`` frees all that is not referred to."""

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collect = collect
        self._clock = clock
        self._weight = 0
        self._not_before = 0.0

    def add(self, weight: int) -> bool:
        """One more is closed (:data:`PLAIN`, :data:`TLS`); whether it is time for
        :meth:`collect`."""
        self._weight += weight
        return self._weight >= ENOUGH and self._clock() >= self._not_before

    def collect(self) -> None:
        """Free them, unless that was just done."""
        if self._weight < ENOUGH:
            return
        self._weight = 0
        began = self._clock()
        self._collect()
        ended = self._clock()
        self._not_before = ended + _PART * (ended - began)
