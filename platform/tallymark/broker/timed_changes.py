"""Waiting for a change of the cluster no longer than the client does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from tallymark.errors import CODES, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")


class TimedChanges:
    """Runs changes that go on when their client has stopped waiting. ``stop`` ends them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def within(self, milliseconds: int, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns or raises. REQUEST_TIMED_OUT when it takes longer than that; it
        then goes on in the background. 0 or less waits for nothing: clients ask so for a change
        that is only to be set off."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            done, _ = await asyncio.wait((task,), timeout=max(0, milliseconds) / 1000)
        except asyncio.CancelledError:  # the client has gone
            task.add_done_callback(_log_failure)
            raise
        if not done:
            task.add_done_callback(_log_failure)
            raise KafkaError(
                CODES["REQUEST_TIMED_OUT"], f"not done within {milliseconds} ms, it goes on"
            )
        return task.result()

    async def stop(self) -> None:
        """End what still runs."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a change that nobody waited for failed: %s", error)
