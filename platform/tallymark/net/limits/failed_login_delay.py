"""Delays the response to a failed log-in. Pure.

A client that guesses passwords tries again as soon as it is refused, on hundreds of connections:
1,700 log-ins a second kept the event loop of a broker busy, though no password was hashed, and the
requests of all other clients waited. So the refusals of one address form a queue, from which
:data:`PER_SECOND` are sent in a second. Log-ins that succeed do not wait.

A log-in takes its place in the queue when it arrives, before its result is known: the time of a
refusal reveals nothing about the user name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from tallymark.net.addresses import sender

PER_SECOND: Final = 25
"""Refusals of one address that are sent in a second."""
LONGEST_SECONDS: Final = 10.0
"""A refusal waits no longer than this."""
_MAX_SENDERS: Final = 10_000
_SPACE: Final = 1 / PER_SECOND


class FailedLoginDelay:
    """The queues of all addresses. ``now`` is monotonic, in seconds."""

    def __init__(self) -> None:
        self._free: OrderedDict[str, float] = OrderedDict()
        """Sender -> when its next refusal may be sent; ordered by their latest log-in."""

    def __len__(self) -> int:
        """How many senders are remembered."""
        return len(self._free)

    def come(self, host: str, now: float) -> float:
        """Queue a log-in from the address ``host``; returns the earliest time to refuse it."""
        key = sender(host)
        due = min(max(now, self._free.pop(key, now)), now + LONGEST_SECONDS)
        self._free[key] = due + _SPACE
        if len(self._free) > _MAX_SENDERS:
            self._free.popitem(last=False)
        return due

    def let_in(self, host: str, now: float) -> None:
        """A queued log-in succeeded: remove its place from the queue."""
        key = sender(host)
        free = self._free.get(key)
        if free is None:
            return
        if free - _SPACE <= now:
            del self._free[key]
        else:
            self._free[key] = free - _SPACE
