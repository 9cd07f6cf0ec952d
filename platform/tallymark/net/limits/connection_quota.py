"""Limits the connections to all listeners of one process: in total, for one address, and by the
descriptors that it may have::

    RLIMIT_NOFILE  =  the process itself  |  connections  |  logs
                            32                 half           half

Connections beyond the limit are closed; but a log without a descriptor cannot begin a segment or be
read. So connections never get the logs' half, whatever ``max.connections`` allows.
"""

from __future__ import annotations

import resource
from collections import Counter
from typing import Final

OF_THE_PROCESS: Final = 32
"""Standard streams, listeners, event loop, ZooKeeper, metrics, locks, a compaction's pipes."""
_SCARCE: Final = 1024


def connections_allowed(asked: int, descriptors: int) -> int:
    """The effective ``max.connections`` for a process that may have ``descriptors`` descriptors."""
    if descriptors == resource.RLIM_INFINITY:
        return asked
    return max(1, min(asked, (descriptors - OF_THE_PROCESS) // 2))


def is_scarce(descriptors: int) -> bool:
    """Whether a burst of connections alone could use all descriptors."""
    return descriptors != resource.RLIM_INFINITY and descriptors < _SCARCE


class ConnectionQuota:
    """Counts connections; belongs to one event loop. ``max_per_host`` None means no limit."""

    def __init__(self, max_connections: int, max_per_host: int | None = None) -> None:
        self.max_connections = max_connections
        self.max_per_host = max_per_host
        self.refused = 0
        """Connections refused so far."""
        self._hosts: Counter[str] = Counter()
        self._open = 0

    @property
    def open(self) -> int:
        """Connections counted now."""
        return self._open

    def take(self, host: str) -> str | None:
        """Count a connection from ``host`` and return None; at a limit, return the reason for the
        refusal."""
        why = None
        if self._open >= self.max_connections:
            why = f"{self._open} connections are open (max.connections)"
        elif self.max_per_host is not None and self._hosts[host] >= self.max_per_host:
            why = f"{self._hosts[host]} are from this address (max.connections.per.ip)"
        if why is not None:
            self.refused += 1
            return why
        self._open += 1
        self._hosts[host] += 1
        return None

    def give_back(self, host: str) -> None:
        """Stop counting a connection that has ended."""
        self._open -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
