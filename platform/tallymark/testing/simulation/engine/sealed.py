"""Closes the simulation: what would bring in threads, real waiting or chance from outside raises,
or is drawn from the seed."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.process import RUNNING


class LeftSimulationError(RuntimeError):
    """Code asked for something that the seed does not decide."""


@contextmanager
def sealed(jobs: Jobs) -> Iterator[None]:
    """While this holds, in this thread: ``Thread.start`` raises, and so does ``time.sleep`` on the
    event loop (a job waits for simulated time), ``threading.Lock`` in simulated processes is one of
    jobs, random bytes (UUIDs, secrets) come
    from the seed, and cyclic garbage is not collected: the finalizers of objects from before the
    simulation may sleep, and would run in the middle of it.

    Other threads, of libraries that were used before, go on as ever."""
    seeded_bytes = jobs.loop.chances.of("random bytes").randbytes
    ours = threading.get_ident()
    real_lock, real_start, real_sleep = threading.Lock, threading.Thread.start, time.sleep
    real_bytes = os.urandom

    def lock() -> Any:
        return jobs.lock() if RUNNING.get() is not None else real_lock()

    def start(thread: threading.Thread) -> None:
        if threading.get_ident() == ours:
            raise LeftSimulationError(f"thread {thread.name!r}: a simulation has none")
        real_start(thread)

    def sleep(seconds: float) -> None:
        if threading.get_ident() != ours:
            real_sleep(seconds)
        elif jobs.inside:
            jobs.sleep(seconds)
        else:
            raise LeftSimulationError(f"time.sleep({seconds}): time is simulated")

    def bytes_of(size: int) -> bytes:
        return seeded_bytes(size) if threading.get_ident() == ours else real_bytes(size)

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (threading.Thread, "start", start),
        (threading, "Lock", lock),
        (time, "sleep", sleep),
        (os, "urandom", bytes_of),
        (random, "_urandom", bytes_of),
    ]
    before = [getattr(where, name) for where, name, _ in replaced]
    for where, name, new in replaced:
        setattr(where, name, new)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        for (where, name, _), old in zip(replaced, before, strict=True):
            setattr(where, name, old)
