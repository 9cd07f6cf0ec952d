"""When a broker notifies the others that it has changed state nodes.

The notice of a new leader is part of the transaction that makes it: clients wait for it. So is that
of an ISR which the controller changes: its leader waits for a member that is gone until it knows.
The notice of an ISR that the leader itself has changed can wait: it changes what brokers show, not
what they do. When a follower falls behind,
the ISRs of a thousand partitions change within seconds; a notice for each would wake every broker::

    ISR changes   x  x xx x x       x                each one is a transaction
    notices       x        x        x                one node for all since the last, once a second

When the broker dies before a notice, the next change of the partition brings it. Until then other
brokers may show the old ISR. They decide nothing from it: every change names the version of the
node, so one that was decided from the old ISR fails, and its partition is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition

EVERY_MS: Final = 1000
"""A broker sends notices of ISR changes at most this often."""


class IsrNotices:
    """The partitions that the next notice has to name. Not thread-safe."""

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self._waiting: set[TopicPartition] = set()
        self._next_ms: int | None = None

    def changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Their ISRs have changed, or may have."""
        self._waiting.update(partitions)

    def due(self, now_ms: int) -> frozenset[TopicPartition]:
        """Send a notice of these now; empty while it is too early, or where nothing has changed."""
        if self._next_ms is not None and now_ms < self._next_ms:
            return frozenset()
        return frozenset(self._waiting)

    def due_at_ms(self) -> int | None:
        """When the next notice is due; None where nothing waits, 0 for at once."""
        return (self._next_ms or 0) if self._waiting else None

    def sent(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """A notice of these was sent. The pause begins where ISRs were among them."""
        sent = self._waiting.intersection(partitions)
        if sent:
            self._waiting -= sent
            self._next_ms = now_ms + self._every_ms
