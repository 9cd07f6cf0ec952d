"""An event loop without threads, sockets and waiting: time, order and threads belong to the seed.

* ``time()`` moves to the next timer when no callback is ready. Nothing sleeps.
* Callbacks of one process run in the order in which they were registered, as asyncio promises.
  Which process runs next is drawn.
* Timers that are due in the same moment come in an order that is drawn.
* ``run_in_executor`` runs its function at a later moment (:mod:`.threads`), connections go through
  :mod:`tallymark.testing.simulation.network`. Anything else that would leave the simulation raises.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.process import RUNNING, Process

if TYPE_CHECKING:
    from tallymark.testing.simulation.engine.jobs import Jobs

T = TypeVar("T")


class Connections(Protocol):
    """What makes connections: :class:`tallymark.testing.simulation.network.Network`."""

    async def listen(self, make: Callable[[], Any], host: str, port: int) -> Any: ...
    async def connect(self, make: Callable[[], Any], host: str, port: int) -> Any: ...


class StuckError(Exception):
    """Everything waits, and nothing will ever happen; or the run does not end."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """``most_steps``: so many callbacks may run before the run counts as endless."""

    def __init__(self, chances: Chances, most_steps: int = 3_000_000) -> None:
        super().__init__()
        self.chances = chances
        self.network: Connections | None = None
        self.jobs: Jobs | None = None
        self.errors: list[dict[str, Any]] = []
        """What live processes left to the loop's exception handler."""
        self.owners: WeakKeyDictionary[asyncio.Task[Any], Process] = WeakKeyDictionary()
        self.steps = 0
        self._most_steps = most_steps
        self._now = 0.0
        self._order = chances.of("order")
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._registered = 0
        self._own: Process = Process("simulation", "")
        self._processes: dict[Process, None] = {self._own: None}
        self.set_task_factory(_make_task)
        self.set_exception_handler(_keep_error)

    def run_simulation(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of ``main``."""
        asyncio.set_event_loop(None)
        return self.run_until_complete(main)

    # -- time and order -------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._put(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._registered += 1
        heapq.heappush(self._timers, (when, self._order.random(), self._registered, handle))
        return handle

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """A generator that a killed process has left ends with it: nothing runs any more that
        could close it."""
        process = RUNNING.get()
        if process is not None and process.alive:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: it is dropped when its time has come."""

    def _put(self, handle: asyncio.Handle) -> None:
        process = _process_of(handle) or self._own
        if process.alive:
            self._processes.setdefault(process)
            process.ready.append(handle)

    def _run_once(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise StuckError(f"no end after {self.steps} callbacks, {self._now:.3f} s")
        timers = self._timers
        while timers and (timers[0][3].cancelled() or timers[0][0] <= self._now):
            due = heapq.heappop(timers)[3]
            if not due.cancelled():
                self._put(due)
        ready = [process for process in self._processes if process.ready]
        if not ready:
            if not timers:
                raise StuckError("everything waits, and nothing will ever happen")
            self._now = timers[0][0]
            return
        process = ready[0] if len(ready) == 1 else self._order.choice(ready)
        handle = process.ready.popleft()
        if not handle.cancelled():
            handle._run()
        if not process.alive:
            self._processes.pop(process, None)

    # -- what leaves the loop -------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        from tallymark.testing.simulation.engine.threads import run_in_threads

        return run_in_threads(self, executor, lambda: func(*args))

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        if options.get("ssl") is not None:
            raise NotImplementedError("the simulated network has no TLS")
        assert self.network is not None, "this simulation has no network"
        return await self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        if options.get("ssl") is not None:
            raise NotImplementedError("the simulated network has no TLS")
        assert self.network is not None, "this simulation has no network"
        return await self.network.connect(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return [(2, 1, 6, "", (host, port))]

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps."""


def _process_of(handle: asyncio.Handle) -> Process | None:
    context: Context = handle._context  # type: ignore[attr-defined]
    return context.get(RUNNING)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,
) -> asyncio.Task[T]:
    task = asyncio.Task(coro, loop=loop, **options)
    context: Context | None = options.get("context")
    process = RUNNING.get() if context is None else context.get(RUNNING)
    if process is not None:
        assert isinstance(loop, SimulatedLoop)
        loop.owners[task] = process
        process.adopt(task)
    return task


def _keep_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimulatedLoop)
    process = RUNNING.get()
    for part in ("task", "future", "handle"):
        owner = context.get(part)
        if isinstance(owner, asyncio.Task):
            process = loop.owners.get(owner)
        elif isinstance(owner, asyncio.Handle):
            process = _process_of(owner)
    if process is None or process.alive:
        loop.errors.append(context)
