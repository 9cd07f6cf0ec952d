"""A simulated process: what runs in it knows it by its context, and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, Final, Protocol

RUNNING: Final[ContextVar[Process | None]] = ContextVar("simulated process", default=None)
"""The process whose code is running; None: that of the simulation itself."""
_MOST_AWAITS: Final = 1_000
"""In the end of one coroutine."""


class Ending(Protocol):
    """What a process has of the machine, and what happens to it when the process is killed."""

    def process_died(self) -> None: ...


class ProcessDiedError(BaseException):
    """Ends the code that runs in the moment in which its process is killed."""


class Process:
    """One life of a program on ``host``. Every callback, task and job that is begun in
    :attr:`context` belongs to it; after :meth:`kill` none of them runs again."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.context: Context = contextvars.copy_context()
        self.context.run(RUNNING.set, self)
        self.ready: deque[asyncio.Handle] = deque()
        """Callbacks that may run now, in the order in which they were registered."""
        self.slowness = 1.0
        """How many times as long as usual its threads wait for their turn."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._owned: dict[Ending, None] = {}

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task that was begun here."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None), context=self.context)

    def own(self, thing: Ending) -> None:
        """Notify ``thing`` when the process dies."""
        self._owned[thing] = None

    def disown(self, thing: Ending) -> None:
        """``thing`` has ended before."""
        self._owned.pop(thing, None)

    def kill(self) -> None:
        """``kill -9``: nothing of it runs any more. Idempotent."""
        if not self.alive:
            return
        self.alive = False
        self.ready.clear()
        owned, self._owned = list(self._owned), {}
        for thing in owned:
            thing.process_died()
        while self._tasks:  # the end of one may begin another
            tasks, self._tasks = list(self._tasks), {}
            for task in tasks:
                self.context.copy().run(_bury, task)  # it may be ours that is running

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function as code of this process."""
        return self.context.run(function)

    def __repr__(self) -> str:
        return self.name


def _bury(task: asyncio.Task[Any]) -> None:
    """End a task that will never run again. What its ``finally`` blocks do reaches nothing: files,
    network and ZooKeeper of the process are dead already.

    The innermost coroutine is closed first. One that awaits in its end, as a broker that is just
    stopping, has to be closed again, and nothing but its caller would: that has ended by then."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    awaited: list[Coroutine[Any, Any, Any]] = []
    coroutine: Any = task.get_coro()
    while inspect.iscoroutine(coroutine):
        awaited.append(coroutine)
        coroutine = coroutine.cr_await
    for each in reversed(awaited):
        for _ in range(_MOST_AWAITS):
            with contextlib.suppress(BaseException):
                each.close()
            if inspect.getcoroutinestate(each) == inspect.CORO_CLOSED:
                break
