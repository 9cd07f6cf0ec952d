"""Readers of committed records that wait for more of a partition: records below an open transaction
are nothing to them, so they are woken when the last stable offset moves."""

from __future__ import annotations

from typing import Protocol

from tallymark.broker.partitions.lead import Watcher


class _Partition(Protocol):
    @property
    def last_stable_offset(self) -> int: ...


class StableReaders:
    """Those of one partition. Belongs to the event loop."""

    __slots__ = ("_seen", "_waiting")

    def __init__(self) -> None:
        self._seen = -1
        """The last stable offset that those who wait know of."""
        self._waiting: set[Watcher] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def look(self, partition: _Partition) -> None:
        """The partition has changed: wake all where its last stable offset has moved."""
        stable = partition.last_stable_offset
        if stable != self._seen:
            self._seen = stable
            self.wake()

    def wake(self) -> None:
        """Wake all: the partition is not led here any more, or its log begins elsewhere."""
        for event in self._waiting:
            event.set()

    def watch(self, event: Watcher) -> None:
        """Set ``event`` at every move until :meth:`unwatch`."""
        self._waiting.add(event)

    def unwatch(self, event: Watcher) -> None:
        """The end of :meth:`watch`."""
        self._waiting.discard(event)
