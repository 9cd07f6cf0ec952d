"""Limits the memory of all requests that are still arriving.

A connection announces the size of a request before it sends it, and may never finish it. The size
of each is bounded by the largest request; this bounds their sum. A connection that gets no memory
waits in a queue and reads nothing meanwhile. The first one in the queue may exceed the limit, that
one alone, so that requests which wait for each other's memory end. The sum never exceeds the limit
by more than one request.
"""

from __future__ import annotations

from typing import Protocol


class MemoryOwner(Protocol):
    """A connection that asks for memory."""

    def memory_granted(self) -> None:
        """The memory that :meth:`RequestMemory.take` refused is granted now."""
        ...


class RequestMemory:
    """Counts bytes; belongs to one event loop. ``limit`` None means no limit."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.held = 0
        """Bytes that requests hold now."""
        self._beyond: MemoryOwner | None = None
        self._waiting: dict[MemoryOwner, int] = {}

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting)

    def take(self, owner: MemoryOwner, size: int) -> bool:
        """Count ``size`` more bytes for ``owner``. False: there is no room now; the bytes are
        counted, and the owner is called, once there is."""
        if self._fits(owner, size) and (not self._waiting or self._beyond is owner):
            self._grant(owner, size)
            return True
        self._waiting[owner] = size
        return False

    def give_back(self, owner: MemoryOwner, size: int) -> None:
        """``owner`` holds ``size`` bytes less."""
        self.held -= size
        if self._beyond is owner or not self.held:
            self._beyond = None
        for waiting, wanted in list(self._waiting.items()):
            if not self._fits(waiting, wanted):
                break
            del self._waiting[waiting]
            self._grant(waiting, wanted)
            waiting.memory_granted()

    def forget(self, owner: MemoryOwner) -> None:
        """``owner`` does not wait any more."""
        self._waiting.pop(owner, None)

    def _fits(self, owner: MemoryOwner, size: int) -> bool:
        if self.limit is None or self.held + size <= self.limit:
            return True
        return self._beyond is None or self._beyond is owner

    def _grant(self, owner: MemoryOwner, size: int) -> None:
        self.held += size
        if self.limit is not None and self.held > self.limit:
            self._beyond = owner
