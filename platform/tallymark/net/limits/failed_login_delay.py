"""When a log-in that failed is told so. Pure.

Whoever guesses tries again as soon as he is refused, on hundreds of connections: 1,700 log-ins a
second kept the event loop of a broker busy, without one password being hashed, and everybody's
requests waited behind them. So the refusals of one address stand in a line, that moves
:data:`PER_SECOND` times a second. Those who are let in stand in no line.

The place in the line is taken when a log-in comes, before anybody knows what becomes of it: the
time of a refusal tells nothing about the name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tallymark.net.addresses import sender

PER_SECOND: Final = 25
"""Refusals of one address."""
LONGEST_SECONDS: Final = 10.0
"""What a refusal waits at most."""
_MAX_SENDERS: Final = 10_000
_SPACE: Final = 1 / PER_SECOND


class RefusalPace:
    """``now`` is monotonic, in seconds."""

    def __init__(self) -> None:
        self._free: OrderedDict[str, float] = OrderedDict()
        """Sender -> when its next refusal may be told; the one that came last is last."""

    def __len__(self) -> int:
        """How many senders are remembered."""
        return len(self._free)

    def come(self, host: str, now: float) -> float:
        """A log-in comes from the address ``host``: the earliest time to refuse it."""
        key = sender(host)
        due = min(max(now, self._free.pop(key, now)), now + LONGEST_SECONDS)
        self._free[key] = due + _SPACE
        if len(self._free) > _MAX_SENDERS:
            self._free.popitem(last=False)
        return due

    def let_in(self, host: str, now: float) -> None:
        """A log-in that came is not refused: its place is given back."""
        key = sender(host)
        free = self._free.get(key)
        if free is None:
            return
        if free - _SPACE <= now:
            del self._free[key]
        else:
            self._free[key] = free - _SPACE
