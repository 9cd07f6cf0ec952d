"""Measures how late the event loop is: the longest time a request waits before it is handled."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_TICK: Final = 0.25
_KEPT: Final = 240


class LoopLag:
    """Between :meth:`start` and :meth:`stop` sleeps again and again, and records how much too late
    it wakes."""

    def __init__(self) -> None:
        self._late: deque[float] = deque([0.0], maxlen=_KEPT)
        self._task: asyncio.Task[None] | None = None

    @property
    def worst(self) -> float:
        """The greatest lag of the last minute, seconds."""
        return max(self._late)

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(_TICK)
            self._late.append(max(0.0, loop.time() - began - _TICK))
