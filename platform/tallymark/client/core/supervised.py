"""Background tasks that report when they die.

Python reports a task that dies of an unforeseen error only when it collects the task. Clients have
hung for hours because their fetching had ended without a word. Every task of the client rooms is
made by :func:`start`; when one dies, the thread that runs it is notified
(:class:`~.io_thread.IoThread`), and the next call of the client raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tallymark.errors import TallymarkError

T = TypeVar("T")
WORK: Final = "tallymark_work"
"""Key of the dead task's name in the exception context."""


def start(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Run ``work`` in the background of the running loop. A TallymarkError is for the caller that
    awaits the task; any other error goes to the loop's exception handler."""
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
