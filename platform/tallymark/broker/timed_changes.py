"""Waits for a change of the cluster, but no longer than its client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from tallymark.errors import CODES, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")


class TimedChanges:
    """Runs changes that continue when their client has stopped waiting. ``stop`` ends them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def within(self, milliseconds: int, work: Coroutine[Any, Any, T]) -> T:
        """Return or raise the outcome of ``work``. REQUEST_TIMED_OUT when it takes longer than
        ``milliseconds``; it then continues in the background. With 0 or less nothing is waited for:
        the client only wants the change to be started."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            done, _ = await asyncio.wait((task,), timeout=max(0, milliseconds) / 1000)
        except asyncio.CancelledError:  # the client has disconnected
            task.add_done_callback(_log_failure)
            raise
        if not done:
            task.add_done_callback(_log_failure)
            raise KafkaError(
                CODES["REQUEST_TIMED_OUT"], f"not done within {milliseconds} ms, it goes on"
            )
        return task.result()

    async def stop(self) -> None:
        """Cancel the changes that still run."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("a change failed whose caller waits no longer: %s", error)
