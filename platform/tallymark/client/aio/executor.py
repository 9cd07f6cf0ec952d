"""One thread that does the blocking calls of an asyncio object, one after the other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tallymark.errors import ClosedError

T = TypeVar("T")


class SingleThreadExecutor:
    """Starts with its first job and ends with :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call ``function`` when the jobs before it are done. ClosedError after :meth:`stop`."""
        outcome: Future[T] = Future()
        outcome.set_running_or_notify_cancel()  # see calls.outcome_of()

        def job() -> None:
            if self._stopped:
                outcome.set_exception(ClosedError(f"{self._name} has been closed"))
                return
            try:
                result = function()
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)

        with self._lock:
            if self._stopped:
                raise ClosedError(f"{self._name} has been closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._jobs.put(job)
        return outcome

    def stop(self, timeout: float = 5.0) -> None:
        """Do no more jobs (those that wait end with ClosedError), wait for the one under way."""
        with self._lock:
            self._stopped = True
            self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        job: Any
        while (job := self._jobs.get()) is not None:
            job()
