"""One thread for work that waits: the application finishing, offsets on their way."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

from tallymark.errors import ClientFailedError, ClosedError, TallymarkError

_NAME: Final = "tallymark-group"
Job = Callable[[], None]


class Worker:
    """One job after the other. What one of them raises goes to ``on_failure``, in the worker,
    which then goes on with the next: as a ClientFailedError if it was not foreseen."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def put(self, job: Job) -> None:
        """Do this after what was put before."""
        self._jobs.put(job)

    def end(self) -> None:
        """Finish what was put, then end the thread."""
        self._jobs.put(None)

    def join(self, timeout: float) -> bool:
        """Wait (seconds) for the thread's end; whether it has come. A job does not wait for
        itself."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except ClosedError:
                pass  # the connector was shut down meanwhile
            except TallymarkError as error:
                self._on_failure(error)
            except BaseException as error:  # sys.exit() in the application's callback, too
                self._on_failure(ClientFailedError(_NAME, "its worker", error))
