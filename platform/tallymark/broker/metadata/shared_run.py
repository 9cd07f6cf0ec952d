"""One run for many callers.

::

    caller 1 ──▶ a run ────────────────▶│
    caller 2 ────────▶ waits            │──▶ the next run ──▶ callers 2 and 3 have its result
    caller 3 ──────────────▶ waits      │

A caller wants what it knows or has asked for to be in its run, so it cannot take the result of one
that has begun: that may have read before. All that come while one runs share the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRun(Generic[T]):
    """Calls ``work``, never twice at the same time. Belongs to the event loop."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._one_runs = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None
        """Has not begun its work: one that calls now may wait for it."""
        self._tasks: set[asyncio.Task[T]] = set()

    async def __call__(self) -> T:
        """The result of a run that began after this call; its error where it fails. A caller that
        is cancelled leaves it to the others."""
        if self._next is None:
            task = self._next = asyncio.create_task(self._run(), name="shared run")
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        return await asyncio.shield(self._next)

    async def stop(self, seconds: float) -> None:
        """Wait for what runs, at most so long, then cancel it."""
        if tasks := list(self._tasks):
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> T:
        async with self._one_runs:
            self._next = None
            return await self._work()

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if self._next is task:  # cancelled before it began
            self._next = None
        if not task.cancelled():
            task.exception()  # all callers may have gone: then nothing else looks at it
