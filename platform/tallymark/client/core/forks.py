"""Detects that this process was forked, for less than a system call.

A producer checks for every record, and ``os.getpid`` would be a system call each time.
"""

from __future__ import annotations

import os
import threading
from typing import ClassVar, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object that a forked child must change before it uses it."""

    def forked(self) -> None:
        """Called in the child, before any other code runs there."""


class _Forks:
    """``count`` is the number of forks between the first process and this one."""

    count = 0
    lock = threading.Lock()
    told: ClassVar[WeakSet[Forkable]] = WeakSet()

    @classmethod
    def add(cls) -> None:
        cls.count += 1
        cls.lock = threading.Lock()  # a thread of the parent may hold the old one
        for one in list(cls.told):
            one.forked()


def generation() -> int:
    """A number that differs between a forked child and its parent."""
    return _Forks.count


def tell_in_child(one: Forkable) -> None:
    """Call ``one.forked()`` in every forked child, as long as ``one`` lives."""
    _Forks.told.add(one)


def fork_lock() -> threading.Lock:
    """A lock that no thread of the parent holds, for an object that replaces itself in a child."""
    return _Forks.lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.add)
