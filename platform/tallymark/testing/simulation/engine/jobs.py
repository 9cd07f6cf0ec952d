"""What stands for threads: functions that run on the loop and may wait in the middle.

A job is a greenlet. It runs until it waits (for time, a lock, a signal, an answer of ZooKeeper) and
then lets the event loop go on; nothing else interrupts it. So the same seed always interleaves jobs
and callbacks in the same way, and a wait on the event loop itself, which would stop a real broker,
is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

from tallymark.testing.simulation.engine.loop import SimulatedLoop
from tallymark.testing.simulation.engine.process import Process, ProcessDiedError

_THE_LOOP: Final = object()


class Jobs:
    """All jobs of a simulation."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.hub = getcurrent()
        loop.jobs = self

    def start(
        self,
        process: Process,
        delay: float,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Run ``work`` after ``delay`` seconds as code of ``process``; ``done(result, error)`` is
        called in the same job."""
        job = Job(self, process, work, done)
        self.loop.call_later(delay, job.go_on, context=process.context)

    @property
    def inside(self) -> bool:
        """Whether the caller is a job."""
        return current_job() is not None

    def sleep(self, seconds: float) -> None:
        """Wait; on the event loop this is an error."""
        self.current("sleeps").park(seconds)

    def pause(self, seconds: float) -> None:
        """A job waits; what runs on the event loop goes on at once."""
        job = current_job()
        if job is not None:
            job.park(seconds)

    def lock(self) -> JobLock:
        """A lock for jobs and the loop."""
        return JobLock(self)

    def signal(self) -> JobSignal:
        """As ``threading.Event``."""
        return JobSignal(self)

    def monotonic(self) -> float:
        """The loop's clock."""
        return self.loop.time()

    def current(self, what: str) -> Job:
        """The job that calls this; ``what`` it does must not be done by the event loop."""
        job = current_job()
        if job is None:
            raise RuntimeError(f"the event loop {what}: in a broker all clients would wait")
        return job


def current_job() -> Job | None:
    """The job that calls this, None: it is the event loop."""
    job: Job | None = getattr(getcurrent(), "job", None)
    return job


class Job:
    """One function on its way, as code of ``process``."""

    def __init__(
        self,
        jobs: Jobs,
        process: Process,
        work: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        self.process = process
        self.awaited: JobLock | None = None
        self._jobs = jobs
        self._work = work
        self._done = done
        self._timer: asyncio.TimerHandle | None = None
        self._greenlet: Any = greenlet(self._run, jobs.hub)
        self._greenlet.gr_context = process.context.copy()
        self._greenlet.job = self
        process.own(self)

    def _run(self) -> None:
        result, error = None, None
        try:
            result = self._work()
        except (GreenletExit, ProcessDiedError):
            return
        except BaseException as raised:
            error = raised
        self.process.disown(self)
        if self.process.alive:
            self._done(result, error)

    def go_on(self) -> None:
        """Called on the loop: run until the job waits again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._greenlet.dead and self.process.alive:
            self._greenlet.switch()

    def park(self, seconds: float | None) -> None:
        """Wait for so long, or until :meth:`go_on`."""
        if not self.process.alive:
            raise ProcessDiedError
        loop = self._jobs.loop
        if seconds is not None:
            self._timer = loop.call_later(seconds, self.go_on, context=self.process.context)
        self._jobs.hub.switch()
        if not self.process.alive:
            raise ProcessDiedError

    def hurry(self) -> None:
        """The loop waits for a lock that this job holds: go on to where it is free."""
        if self.awaited is not None:
            self.awaited.hurry()
        else:
            self.go_on()

    def process_died(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._greenlet and getcurrent() is not self._greenlet:
            self._greenlet.parent = getcurrent()  # go on here when it has ended
            self._greenlet.throw(GreenletExit)


class JobLock:
    """As ``threading.Lock``."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._holder: object = None
        self._waiting: list[Job] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait until it is free, and take it."""
        current = current_job()
        while self._holder is not None:
            if not blocking:
                return False
            if current is not None:
                self._waiting.append(current)
                current.awaited = self
                try:
                    current.park(None)
                finally:
                    current.awaited = None
            else:
                self.hurry()
        self._holder = current or _THE_LOOP
        return True

    def release(self) -> None:
        """Let the next one take it."""
        self._holder = None
        if self._waiting:
            job = self._waiting.pop(0)
            self._jobs.loop.call_soon(job.go_on, context=job.process.context)

    def locked(self) -> bool:
        """Whether it is taken."""
        return self._holder is not None

    def hurry(self) -> None:
        """Let the holder go on, as far as it needs."""
        if not isinstance(self._holder, Job):
            raise RuntimeError("the event loop waits for a lock that it holds itself")
        self._holder.hurry()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class JobSignal:
    """As ``threading.Event``."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._set = False
        self._waiting: dict[Job, None] = {}

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, {}
        for job in waiting:
            self._jobs.loop.call_soon(job.go_on, context=job.process.context)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            job = self._jobs.current("waits for a signal")
            self._waiting[job] = None
            job.park(timeout)
            self._waiting.pop(job, None)
        return self._set
