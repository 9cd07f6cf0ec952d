"""The events that a connection reports to its owner, for metrics."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Receives the events of one connection."""

    def sent(self, correlation_id: int, request: str, size: int, *, answered: bool) -> None:
        """A request (name of its class) of ``size`` bytes was written; ``answered``: it will have a
        response."""

    def received(self, size: int) -> None:
        """Bytes were received."""

    def answered(self, correlation_id: int) -> None:
        """The response to a request was received."""

    def ended(self, error: str) -> None:
        """The connection ended with an error of that name; no more responses come. Called once."""
