"""When a process is started, restarted, held or given up. Pure: time is an argument.

::

    WAITING --after ready--> STARTING --"ready" line--> READY
                                │ exit                    │ exit
                                ▼                         ▼
             GIVEN_UP <--3 early deaths-- BACKOFF <-------┘
                                             │ delay over
                                             └──────────> STARTING
    any --hold--> HELD (not restarted until release) --release--> STARTING
    any --stop--> STOPPING --exit--> STOPPED

A death before the first "ready" of its life counts as early; after :data:`EARLY_DEATHS` of them in
a row the process is given up, since it is most likely misconfigured. A process that has been ready
once is restarted for ever, with a delay that doubles up to :data:`MAX_DELAY_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

FIRST_DELAY_MS = 500
MAX_DELAY_MS = 30_000
STABLE_MS = 10_000
"""Ready for so long, a process is healthy again: its next death starts from the first delay."""
EARLY_DEATHS = 3


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    BACKOFF = "restarting"
    HELD = "held"
    GIVEN_UP = "given up"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Child:
    """What is known of one process. ``since_ms`` is when its state began."""

    name: str
    after: tuple[str, ...] = ()
    state: State = State.WAITING
    since_ms: int = 0
    pid: int | None = None
    restarts: int = 0
    early_deaths: int = 0
    delay_ms: int = FIRST_DELAY_MS
    was_ready: bool = False
    reason: str = ""
    """Why it is not ready: the exit status and the last line of its log."""


Action = Literal["start", "stop", "none"]


def tick(child: Child, others: Mapping[str, Child], now_ms: int) -> Action:
    """What is to be done with the process now."""
    if child.state is State.WAITING:
        ready = all(others[name].state is State.READY for name in child.after)
        return "start" if ready else "none"
    if child.state is State.BACKOFF and now_ms >= child.since_ms + child.delay_ms:
        return "start"
    return "none"


def started(child: Child, pid: int, now_ms: int) -> Child:
    """The process was spawned."""
    return replace(child, state=State.STARTING, since_ms=now_ms, pid=pid)


def ready(child: Child, now_ms: int) -> Child:
    """The process said that it serves."""
    if child.state is not State.STARTING:
        return child
    return replace(
        child, state=State.READY, since_ms=now_ms, was_ready=True, early_deaths=0, reason=""
    )


def exited(child: Child, reason: str, now_ms: int) -> Child:
    """The process is gone."""
    gone = replace(child, pid=None, since_ms=now_ms, reason=reason)
    if child.state in (State.HELD, State.STOPPED):
        return gone
    if child.state is State.STOPPING:
        return replace(gone, state=State.STOPPED, reason="")
    early = 0 if child.was_ready else child.early_deaths + 1
    if early >= EARLY_DEATHS:
        return replace(gone, state=State.GIVEN_UP, early_deaths=early)
    stable = child.state is State.READY and now_ms - child.since_ms >= STABLE_MS
    delay = (
        FIRST_DELAY_MS if stable or not child.restarts else min(child.delay_ms * 2, MAX_DELAY_MS)
    )
    return replace(
        gone,
        state=State.BACKOFF,
        early_deaths=early,
        delay_ms=delay,
        restarts=child.restarts + 1,
    )


def hold(child: Child, now_ms: int) -> Child:
    """Do not restart the process when it dies, until :func:`release`."""
    return replace(child, state=State.HELD, since_ms=now_ms)


def release(child: Child, now_ms: int) -> Child:
    """Start a held process again at once."""
    if child.state is not State.HELD:
        return child
    return replace(
        child, state=State.BACKOFF, since_ms=now_ms, delay_ms=0, restarts=child.restarts + 1
    )


def stop(child: Child, now_ms: int) -> Child:
    """The whole stack stops."""
    state = State.STOPPING if child.pid is not None else State.STOPPED
    return replace(child, state=state, since_ms=now_ms)
