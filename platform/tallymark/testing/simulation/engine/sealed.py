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
from typing import Any, NoReturn

from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.process import RUNNING


class LeftSimulationError(RuntimeError):
    """Code asked for something that the seed does not decide."""


@contextmanager
def sealed(jobs: Jobs) -> Iterator[None]:
    """While this holds, in this process of the operating system: ``Thread.start`` and
    ``time.sleep`` raise, ``threading.Lock`` in simulated processes is one of jobs, random bytes
    (UUIDs, secrets) come from the seed, and cyclic garbage is not collected: the finalizers of
    objects from before the simulation may sleep, and would run in the middle of it."""
    bytes_of = jobs.loop.chances.of("random bytes").randbytes
    real_lock = threading.Lock

    def lock() -> Any:
        return jobs.lock() if RUNNING.get() is not None else real_lock()

    def no_thread(thread: threading.Thread) -> NoReturn:
        raise LeftSimulationError(f"thread {thread.name!r}: a simulation has none")

    def no_sleep(seconds: float) -> NoReturn:
        raise LeftSimulationError(f"time.sleep({seconds}): time is simulated")

    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (threading.Thread, "start", no_thread),
        (threading, "Lock", lock),
        (time, "sleep", no_sleep),
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
