"""An event loop without threads and without waiting: time passes when nothing else is left to do,
and what runs in threads elsewhere runs when the test says so."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Blocked(Exception):
    """A thread cannot go on yet: it tries again when it is its turn the next time."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` is 0 at first, and moves on to the next timer when all callbacks have run."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_NeverWaits(self))

    def time(self) -> float:
        return self.now


class _NeverWaits(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing will ever happen")
        self._loop.now += max(0.0, timeout)
        return super().select(0)


def run_virtually(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """As ``asyncio.run``."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


@dataclass
class _Job:
    call: Callable[[], Any]
    future: Future[Any]
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class StepThreads(Executor):
    """Threads that do one thing when :meth:`step` is called: begin what was submitted and end it,
    or tell the event loop of what has ended."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []

    def submit(
        self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Result]:
        future: Future[Result] = Future()
        self.jobs.append(_Job(lambda: fn(*args, **kwargs), future))
        return future

    def step(self, which: int) -> None:
        """One of the jobs, counted from 0, goes on."""
        job = self.jobs[which]
        if not job.done:
            try:
                job.result = job.call()
            except Blocked:
                return
            except BaseException as error:
                job.error = error
            job.done = True
            return
        self.jobs.remove(job)
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was submitted is forgotten: the process ends."""
        self.jobs.clear()
