"""Calls that block, made for coroutines: each in a thread that lives as long as the call.

Not in the event loop's default executor: its few threads are the application's, a close() there
would wait behind whatever fills them, and they stay when the call is over.
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
    """Await a future of another thread that runs. Being cancelled ends the waiting, not the work:
    a concurrent future that runs does not let itself be cancelled."""
    return await asyncio.wrap_future(future)


async def in_thread(name: str, function: Callable[[], T]) -> T:
    """Run ``function``, which may block but must end, and await its outcome. Being cancelled ends
    the waiting; the call itself goes on to its end."""
    return await outcome_of(start_thread(name, function))
