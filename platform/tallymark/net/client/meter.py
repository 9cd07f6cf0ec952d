"""What a connection reports to its owner, for metrics."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Receives the events of one connection."""

    def sent(self, correlation_id: int, request: str, size: int, *, answered: bool) -> None:
        """A request (name of its class) of ``size`` bytes was handed over; ``answered``: a
        response will come."""

    def received(self, size: int) -> None:
        """Bytes came."""

    def answered(self, correlation_id: int) -> None:
        """The response to a request is there."""

    def ended(self, error: str) -> None:
        """The connection is over, by an error of that name; no more answers. Called once."""
