"""Has this process been forked since? Cheaper than asking the kernel for the process id each time.

``os.getpid`` is a system call, and a producer would ask for every record.
"""

from __future__ import annotations

import os
import threading
from typing import ClassVar, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that a child must not go on using as it is."""

    def forked(self) -> None:
        """Called in the child, before anything else of it runs."""


class _Forks:
    """``count`` forks lie between the first process and this one."""

    count = 0
    lock = threading.Lock()
    told: ClassVar[WeakSet[Forkable]] = WeakSet()

    @classmethod
    def add(cls) -> None:
        cls.count += 1
        cls.lock = threading.Lock()  # the old one may be held by a thread that is not here
        for one in list(cls.told):
            one.forked()


def generation() -> int:
    """A number that is another one in a forked child than in its parent."""
    return _Forks.count


def tell_in_child(one: Forkable) -> None:
    """Have ``one.forked()`` called in every forked child while it lives."""
    _Forks.told.add(one)


def fork_lock() -> threading.Lock:
    """For an object that replaces itself in a child: a lock that no thread of the parent holds."""
    return _Forks.lock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.add)
