"""Coroutines that wait for room in a producer's buffer: first come, first served, in any loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tallymark.client.producing.batches.buffer_memory import BufferMemory

T = TypeVar("T")


class _Waiter:
    """A coroutine's place in the queue. ``wake`` may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # its loop was closed: it waits no longer
            self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self) -> None:
        await self._woken.wait()
        self._woken.clear()


class RoomQueue(Generic[T]):
    """Tries something again whenever bytes of ``buffer`` are given back, one coroutine at a time.

    Only the first in the queue is woken and tries: a full buffer that gets room for one batch does
    not wake a thousand coroutines. A coroutine that leaves, also by being cancelled, wakes the next
    one.
    """

    def __init__(self, buffer: BufferMemory, full: type[Exception]) -> None:
        self._buffer: Final = buffer
        self._full = full
        self._lock = threading.Lock()
        self._queue: deque[_Waiter] = deque()

    @property
    def busy(self) -> bool:
        """Whether a coroutine waits: others have to queue behind it."""
        return bool(self._queue)

    async def until_it_fits(self, attempt: Callable[[], T]) -> T:
        """Wait for one's turn; call ``attempt`` until it does not raise ``full`` any more.

        Cancelled at any point, ``attempt`` has not succeeded: nothing is awaited after it has.
        """
        waiter = _Waiter()
        with self._lock:
            self._queue.append(waiter)
            if len(self._queue) == 1:
                self._buffer.watch(self.wake_first)
        try:
            while True:
                if self._queue[0] is waiter:
                    with contextlib.suppress(self._full):
                        return attempt()
                await waiter.wait()
        finally:
            self._leave(waiter)

    def wake_first(self) -> None:
        """Have the first in the queue try again."""
        with self._lock:
            first = self._queue[0] if self._queue else None
        if first is not None:
            first.wake()

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            self._queue.remove(waiter)
            if not self._queue:
                self._buffer.unwatch(self.wake_first)
        self.wake_first()
