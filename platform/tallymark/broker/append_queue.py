"""Batches of one partition that take a while to be made ready: a thread does that, and everything
that comes to the partition meanwhile waits for them, so a producer's batches keep their order.

Several are prepared at a time; they are appended one after the other, in the order they came. The
work goes on where nobody waits for it any more (the connection is gone), as it does with a batch
that is appended at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tallymark.errors import KafkaError

P = TypeVar("P")
T = TypeVar("T")


class AppendQueue:
    """The batches under way of one partition. Belongs to the event loop."""

    __slots__ = ("_last", "_running")

    def __init__(self) -> None:
        self._last: asyncio.Task[object] | None = None
        self._running: set[asyncio.Task[object]] = set()

    @property
    def busy(self) -> bool:
        """Whether there are any: what comes now has to wait for them."""
        return self._last is not None and not self._last.done()

    def put(
        self, prepare: Callable[[], P], append: Callable[[P], T]
    ) -> asyncio.Task[T | KafkaError]:
        """``prepare`` in a thread, ``append`` on the loop after all that came before; what that
        returned, or the KafkaError of either."""
        task = asyncio.create_task(_work(self._last, prepare, append))
        self._last = task
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _work(
    before: asyncio.Task[object] | None, prepare: Callable[[], P], append: Callable[[P], T]
) -> T | KafkaError:
    outcome = await asyncio.to_thread(_tried, prepare)
    if before is not None:  # also where this one failed: who comes next waits for this one only
        await asyncio.wait([before])
    if isinstance(outcome, KafkaError):
        return outcome
    return _tried(lambda: append(outcome))


def _tried(work: Callable[[], T]) -> T | KafkaError:
    try:
        return work()
    except KafkaError as error:
        return error
