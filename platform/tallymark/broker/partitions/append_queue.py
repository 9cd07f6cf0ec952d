"""Batches of one partition that take a while to be made ready: a thread does that, and everything
that comes to the partition meanwhile waits for them, so a producer's batches keep their order.

Several are prepared at a time; they are appended one after the other, in the order they came. The
work goes on when its connection is gone, as it does with a batch
that is appended at once. A partition that is led here no more, or a broker that stops, refuses what
is not appended yet: :meth:`AppendQueue.refuse`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from tallymark.errors import CODES, KafkaError

log = logging.getLogger(__name__)

P = TypeVar("P")
T = TypeVar("T")


class AppendQueue:
    """The batches under way of one partition. Belongs to the event loop. ``executor`` has the
    threads that prepare them, None: the loop's default."""

    __slots__ = ("_executor", "_last", "_refusal", "_running")

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._last: asyncio.Task[object] | None = None
        self._refusal: tuple[int, str] | None = None
        self._running: set[asyncio.Task[object]] = set()

    @property
    def busy(self) -> bool:
        """Whether there are any: what comes now has to wait for them."""
        return self._last is not None and not self._last.done()

    def put(
        self, prepare: Callable[[], P], append: Callable[[P], T]
    ) -> asyncio.Task[T | KafkaError]:
        """``prepare`` in a thread, ``append`` on the loop after all that came before; what that
        returned, or the KafkaError of either. Another exception is logged and becomes
        UNKNOWN_SERVER_ERROR."""
        task = asyncio.create_task(self._work(self._last, prepare, append))
        self._last = task
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def refuse(self, code: int, context: str) -> None:
        """Append nothing from now on: what is under way, and what comes, gets this error. The
        first call counts."""
        self._refusal = self._refusal or (code, context)

    def check(self) -> None:
        """Raises the KafkaError of :meth:`refuse`, if that was called. Any thread may ask."""
        if self._refusal is not None:
            raise KafkaError(*self._refusal)

    async def close(self, code: int, context: str) -> None:
        """:meth:`refuse`, and wait for what is under way to end."""
        self.refuse(code, context)
        if self._running:
            await asyncio.wait(self._running)

    async def _work(
        self,
        before: asyncio.Task[object] | None,
        prepare: Callable[[], P],
        append: Callable[[P], T],
    ) -> T | KafkaError:
        def prepared() -> P:
            self.check()
            return prepare()

        def appended(ready: P) -> T:
            self.check()  # the partition may have gone while the thread was at work
            return append(ready)

        if self._refusal is not None:  # the threads may be gone
            return KafkaError(*self._refusal)
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._executor, _tried, prepared)
        if before is not None:  # also where this one failed: the next one waits for this one only
            await asyncio.wait([before])
        if isinstance(outcome, KafkaError):
            return outcome
        return _tried(lambda: appended(outcome))


def _tried(work: Callable[[], T]) -> T | KafkaError:
    try:
        return work()
    except KafkaError as error:
        return error
    except Exception as error:  # the other partitions of the request must have their answers
        log.exception("a batch could not be appended")
        return KafkaError(CODES["UNKNOWN_SERVER_ERROR"], type(error).__name__)
