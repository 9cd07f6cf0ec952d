"""One background thread with one event loop, in which a client object does its I/O.

The public client classes are synchronous and thread-safe; each owns an :class:`IoThread` and
submits coroutines to it. The thread is a daemon: a program that forgets ``close()`` still ends.

When background work dies (a task made by :func:`.supervised.start`, a callback of the loop), the
client is over: every later call raises ClientFailedError.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from tallymark.client.core.forks import generation
from tallymark.client.core.supervised import WORK
from tallymark.errors import (
    ClientFailedError,
    ClosedError,
    LocalProtocolError,
    TallymarkError,
    TimedOutError,
)

T = TypeVar("T")
log: Final = logging.getLogger(__name__)


class IoThread:
    """Runs coroutines for other threads. Starts at once; ``stop()`` ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: ClientFailedError | None = None
        """The error with which the background work died; None while it runs."""
        self.on_failure: Callable[[ClientFailedError], None] = lambda error: None
        """Called once, in the thread, when the background work has died."""
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._unhandled)
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
        """Whether the caller runs in this thread (callbacks do). A wait there would never end."""
        return threading.get_ident() == self._thread.ident

    def run(
        self, work: Coroutine[Any, Any, T], timeout: float | None = None, what: str = "the call"
    ) -> T:
        """Run ``work`` in the thread and return its result.

        Raises what it raises; TimedOutError naming ``what`` when it takes over ``timeout`` seconds
        (it is cancelled then); ClosedError after :meth:`stop`; LocalProtocolError when called from
        a callback, where it would wait for itself; ClientFailedError when the background work has
        died.
        """
        if self.failure is not None:
            work.close()
            raise self.failure
        return self.finish(work, timeout, what)

    def finish(
        self, work: Coroutine[Any, Any, T], timeout: float | None = None, what: str = "close()"
    ) -> T:
        """:meth:`run` for closing: it also works after the background work has died."""
        if self.is_current:
            work.close()
            raise LocalProtocolError(f"{what} cannot be waited for inside a callback of the client")
        future = self._submit(work)
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise ClosedError(f"{what} was cut off: the client has been closed") from None
        except TimeoutError:
            if future.done():  # the work itself raised it, not our deadline
                raise
            future.cancel()
            raise TimedOutError(f"{what} did not end within {timeout:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start ``work`` in the thread; safe from any thread and from callbacks."""
        if self.failure is not None:
            work.close()
            raise self.failure
        return self._submit(work)

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if generation() != self._generation:
            work.close()
            raise ClosedError(f"{self.name} stayed in the parent process; make a new one here")
        try:
            with self._lock:
                if not self._stopped:
                    return asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # the loop was closed meanwhile
            pass
        work.close()
        raise ClosedError(f"{self.name} has been closed")

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call ``function`` in the thread soon; nothing happens after :meth:`stop`."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def stop(self, timeout: float = 5.0) -> None:
        """Cancel all tasks, end the thread, close the loop. Twice does nothing."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self.call(self.loop.stop)
        if not self.is_current:
            self._thread.join(timeout)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback or a task raised, and no caller was there to catch it. A supervised task or a
        callback of the loop is part of the client, and the client cannot go on without it."""
        error = context.get("exception")
        log.error("%s: %s", self.name, context.get("message"), exc_info=error)
        part = context.get(WORK) or ("a callback" if "handle" in context else None)
        if str(context.get("message")).startswith("Fatal error: protocol."):
            part = "handling an answer"
        if part is None or error is None or isinstance(error, TallymarkError) or self.failure:
            return
        self.failure = ClientFailedError(self.name, str(part), error)
        self.on_failure(self.failure)

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
