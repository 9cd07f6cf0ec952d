"""Limits the connections to all listeners of one process, in total and for one address."""

from __future__ import annotations

from collections import Counter


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
