"""Blocking calls made for coroutines: each in a thread that lives as long as the call.

They do not use the event loop's default executor: its few threads belong to the application, a
close() there would wait until the application's work leaves one free, and the threads stay after
the call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_thread(name: str, function: Callable[[], T]) -> Future[T]:
    """Run ``function`` in a daemon thread called ``name``; its outcome is in the future."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # it cannot be cancelled any more: see outcome_of()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


async def outcome_of(future: Future[T]) -> T:
    """Await a running future of another thread. Cancelling ends the wait, not the work: a
    concurrent future that runs cannot be cancelled."""
    return await asyncio.wrap_future(future)


async def in_thread(name: str, function: Callable[[], T]) -> T:
    """Run ``function``, which may block but must end, and await its outcome. Cancelling ends the
    wait; the call itself continues to its end."""
    return await outcome_of(start_thread(name, function))
