"""Background tasks whose death is noticed.

A task that dies of an unforeseen error is silent until Python collects it: clients were waited
for, for hours, whose fetching had ended so. Every task of the client rooms is made by
:func:`start`; when it dies, the thread that runs it hears of it (:class:`~.io_thread.IoThread`),
and so does the next call of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tallymark.errors import TallymarkError

T = TypeVar("T")
WORK: Final = "tallymark_work"
"""Key of the exception context under which the name of the dead work is."""


def start(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Run ``work`` in the background of the running loop. Its own errors (TallymarkError) are for
    the caller that awaits it; any other goes to the loop's exception handler."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_tell)
    return task


def _tell(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        return
    error = task.exception()  # read here, or Python would warn that it never was
    if error is not None and not isinstance(error, TallymarkError):
        task.get_loop().call_exception_handler(
            {"message": f"{task.get_name()} died", "exception": error, WORK: task.get_name()}
        )
