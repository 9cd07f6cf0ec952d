"""The parts of a stop that wait for others (peers, ZooKeeper, tasks) share one bound.

::

    hand over leads    controlled.shutdown.max.retries × .retry.backoff.ms
    all that follows   shutdown.timeout.ms, and a second for each part where that is up; then it is
                       left as it is
    close the logs     as long as the disk takes; without the marker of a clean stop where a part
                       was left: it may still write

What is left ends with the process. The next start then takes the logs as after a kill: nothing that
was acknowledged is missing, it only checks more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

log: Final = logging.getLogger(__name__)

LEAST: Final = 1.0
"""Seconds for each part, also where one before it has taken all the time."""
_SLOW: Final = 1.0
"""Seconds after which a part is named in the log."""


class StopClock:
    """The time that one stop has. Belongs to the event loop."""

    def __init__(self, seconds: float) -> None:
        self._now = asyncio.get_running_loop().time
        self._began = self._now()
        self._ends = self._began + seconds
        self.slow: list[str] = []
        """What took longer than a second: for the log."""
        self.left: list[str] = []
        """What has not ended in time."""

    async def end(self, what: str, work: Coroutine[Any, Any, object]) -> bool:
        """Do ``work``, which ends the part ``what``; False where time was up: it is cancelled then,
        and waited for a moment only. Raises what it raises."""
        began = self._now()
        task = asyncio.create_task(work, name=f"stop of {what}")
        await asyncio.wait([task], timeout=max(LEAST, self._ends - began))
        took = self._now() - began
        if not task.done():
            task.cancel()
            task.add_done_callback(_seen)
            self.left.append(what)
            await asyncio.wait([task], timeout=LEAST)  # it ends what is behind the stuck part
            log.error("stop: %s had not ended after %.1f s, it is left as it is", what, took)
            return False
        if took >= _SLOW:
            self.slow.append(f"{what} {took:.1f} s")
        task.result()
        return True

    @property
    def seconds(self) -> float:
        """Since the stop began."""
        return self._now() - self._began


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
