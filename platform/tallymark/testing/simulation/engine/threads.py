"""Executors of the simulation: each function runs as a job, when a worker is free and the seed lets
it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.loop import SimulatedLoop
from tallymark.testing.simulation.engine.process import RUNNING, Process

P = ParamSpec("P")
T = TypeVar("T")

_TURN_SECONDS: Final = 0.0004
"""The mean of how long a thread waits for its turn."""
_DEFAULT_WORKERS: Final = 8


class _Order(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class SimulatedThreads(Executor):
    """The executor of one process; ``workers`` functions may be under way at a time."""

    def __init__(self, jobs: Jobs, process: Process, workers: int, name: str) -> None:
        self.name = name
        self._jobs = jobs
        self._process = process
        self._idle = workers
        self._waiting: deque[_Order] = deque()
        self._closed = False
        self._chance = jobs.loop.chances.of(f"threads {process.host} {name}")

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run ``work`` in a thread."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: asyncio.Future[T] = self._jobs.loop.create_future()
        self._waiting.append(_Order(work, future))
        self._go_on()
        return future

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Only for jobs, which wait for what they submit: it is done when this returns."""
        if not self._jobs.inside:
            raise RuntimeError("the simulation has no threads: use run_in_executor")
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As that of all executors."""
        self._closed = True
        if cancel_futures:
            while self._waiting:
                self._waiting.popleft().future.cancel()
        while wait and (self._waiting or self._busy):
            self._jobs.sleep(0.001)

    _busy = 0

    def _go_on(self) -> None:
        while self._idle and self._waiting:
            order = self._waiting.popleft()
            if order.future.cancelled():
                continue
            self._idle -= 1
            self._busy += 1
            delay = self._chance.expovariate(1 / _TURN_SECONDS) * self._process.slowness
            self._jobs.start(self._process, delay, order.work, self._ender(order))

    def _ender(self, order: _Order) -> Callable[[Any, BaseException | None], None]:
        def ended(result: Any, error: BaseException | None) -> None:
            self._idle += 1
            self._busy -= 1
            context = self._process.context
            self._jobs.loop.call_soon(_settle, order.future, result, error, context=context)
            self._go_on()

        return ended


def run_in_threads(loop: SimulatedLoop, executor: Any, work: Callable[[], T]) -> asyncio.Future[T]:
    """``loop.run_in_executor``. The default executor is that of the process."""
    if executor is None:
        process = RUNNING.get()
        assert process is not None, "only a simulated process has threads"
        executor = default_threads(loop, process)
    if not isinstance(executor, SimulatedThreads):
        raise RuntimeError(f"{executor!r} would leave the simulation: pass the threads by a port")
    return executor.begin(work)


def default_threads(loop: SimulatedLoop, process: Process) -> SimulatedThreads:
    """The executor of ``asyncio.to_thread``."""
    found = getattr(process, "default_threads", None)
    if found is None:
        assert loop.jobs is not None
        found = SimulatedThreads(loop.jobs, process, _DEFAULT_WORKERS, "default")
        process.default_threads = found  # type: ignore[attr-defined]
    threads: SimulatedThreads = found
    return threads


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
