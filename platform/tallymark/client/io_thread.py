"""One background thread with one event loop: where a client object does its I/O.

The public client classes are synchronous and thread-safe; each owns an :class:`IoThread` and hands
coroutines over to it. The thread is a daemon: a program that forgets ``close()`` still ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tallymark.client.forks import generation
from tallymark.errors import ClosedError, LocalProtocolError, TimedOutError

T = TypeVar("T")


class IoThread:
    """Runs coroutines for other threads. Starts at once; ``stop()`` ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = asyncio.new_event_loop()
        self._generation = generation()
        self._stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` has been called."""
        return self._stopped

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread (a callback does), where waiting would hang."""
        return threading.get_ident() == self._thread.ident

    def run(
        self, work: Coroutine[Any, Any, T], timeout: float | None = None, what: str = "the call"
    ) -> T:
        """Run ``work`` in the thread and return its result.

        Raises what it raises; TimedOutError naming ``what`` when it takes over ``timeout`` seconds
        (it is cancelled then); ClosedError after :meth:`stop`; LocalProtocolError when called from
        a callback, where it would wait for itself.
        """
        if self.is_current:
            work.close()
            raise LocalProtocolError(f"{what} cannot be waited for inside a callback of the client")
        future = self.submit(work)
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise ClosedError(f"{what} was cut off: the client has been closed") from None
        except TimeoutError:
            if future.done():  # the work itself raised it, the deadline is not ours
                raise
            future.cancel()
            raise TimedOutError(f"{what} did not end within {timeout:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start ``work`` in the thread; safe from any thread, callbacks included."""
        if generation() != self._generation:
            work.close()
            raise ClosedError(f"{self.name} stayed in the parent process; make a new one here")
        try:
            with self._lock:
                if not self._stopped:
                    return asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop closed in between
            pass
        work.close()
        raise ClosedError(f"{self.name} has been closed")

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` in the thread soon; nothing happens after :meth:`stop`."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def stop(self, timeout: float = 5.0) -> None:
        """Cancel what still runs, end the thread, close the loop. Twice does nothing."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self.call(self.loop.stop)
        if not self.is_current:
            self._thread.join(timeout)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._cancel_all()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            asyncio.set_event_loop(None)
            self.loop.close()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
