"""One slow call in a thread of its own: the loop never waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """Runs one function at a time in a thread of its own. The thread does not keep the process
    alive: work that hangs ends with it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: Future[T] | None = None

    @property
    def idle(self) -> bool:
        """Whether the next piece may start: nothing runs, and the last outcome was taken."""
        return self._running is None

    def start(self, work: Callable[[], T]) -> None:
        """Begin. RuntimeError: it is not idle."""
        if self._running is not None:
            raise RuntimeError(f"{self._name} is at work")
        future: Future[T] = Future()
        self._running = future
        threading.Thread(target=_run, args=(work, future), name=self._name, daemon=True).start()

    def take(self) -> Future[T] | None:
        """The outcome, once; None while there is none."""
        future = self._running
        if future is None or not future.done():
            return None
        self._running = None
        return future


def _run(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
