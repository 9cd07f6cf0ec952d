"""Batches of one partition that take long to prepare: a thread prepares them, and all batches that
arrive for the partition meanwhile wait, so that a producer's batches keep their order.

Several batches are prepared at a time; they are appended one after the other, in the order of their
arrival. They are appended even if their connection has closed, as is a batch that needs no
preparation. When this broker no longer leads the partition, or stops, batches that are not appended
yet are refused: :meth:`AppendQueue.refuse`.
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
    """The waiting batches of one partition. Belongs to the event loop. ``executor`` has the threads
    that prepare them; None: the loop's default."""

    __slots__ = ("_executor", "_last", "_refusal", "_running")

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._last: asyncio.Task[object] | None = None
        self._refusal: tuple[int, str] | None = None
        self._running: set[asyncio.Task[object]] = set()

    @property
    def busy(self) -> bool:
        """Whether batches wait: a batch that arrives now has to wait for them."""
        return self._last is not None and not self._last.done()

    def put(
        self, prepare: Callable[[], P], append: Callable[[P], T]
    ) -> asyncio.Task[T | KafkaError]:
        """Run ``prepare`` in a thread, then ``append`` on the loop, after all earlier batches. The
        task returns the result of ``append``, or the KafkaError of either. Any other exception is
        logged and becomes UNKNOWN_SERVER_ERROR."""
        task = asyncio.create_task(self._work(self._last, prepare, append))
        self._last = task
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def refuse(self, code: int, context: str) -> None:
        """Append nothing from now on: waiting and later batches get this error. Only the first call
        has an effect."""
        self._refusal = self._refusal or (code, context)

    def check(self) -> None:
        """Raise the KafkaError of :meth:`refuse`, if that was called. Safe from any thread."""
        if self._refusal is not None:
            raise KafkaError(*self._refusal)

    async def close(self, code: int, context: str) -> None:
        """:meth:`refuse`, then wait until no batch is being prepared or appended."""
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
            self.check()  # the partition may have been deleted meanwhile
            return append(ready)

        if self._refusal is not None:  # the threads may have been stopped
            return KafkaError(*self._refusal)
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._executor, _tried, prepared)
        if before is not None:  # even if this one failed: the next one waits only for this one
            await asyncio.wait([before])
        if isinstance(outcome, KafkaError):
            return outcome
        return _tried(lambda: appended(outcome))


def _tried(work: Callable[[], T]) -> T | KafkaError:
    try:
        return work()
    except KafkaError as error:
        return error
    except Exception as error:  # the request's other partitions still need their results
        log.exception("a batch could not be appended")
        return KafkaError(CODES["UNKNOWN_SERVER_ERROR"], type(error).__name__)
