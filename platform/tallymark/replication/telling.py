"""When other brokers are told that a state node has changed.

A new leader is told at once, in the transaction that makes it: clients wait for it. A new ISR can
wait: it changes what brokers show, not what they do. When a follower falls behind, the ISRs of a
thousand partitions change within seconds; told one by one, each would wake every broker::

    ISR changes   x  x xx x x       x                each one is a transaction
    told          x        x        x                one node for all since the last, once a second

An ISR that was not told before the broker died is told with the next change of its partition. Until
then others may show the old one. They decide nothing from it: every change names the version of the
node, so one that was decided from the old ISR fails, and its partition is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition

EVERY_MS: Final = 1000
"""ISR changes are told at most this often by a broker."""


class Telling:
    """The partitions of which others are still to be told. Not thread-safe."""

    def __init__(self, every_ms: int = EVERY_MS) -> None:
        self._every_ms = every_ms
        self._waiting: set[TopicPartition] = set()
        self._next_ms: int | None = None

    def changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Their ISRs have changed, or may have."""
        self._waiting.update(partitions)

    def due(self, now_ms: int) -> frozenset[TopicPartition]:
        """Tell of these now; empty while it is too early, or where there is nothing to tell."""
        if self._next_ms is not None and now_ms < self._next_ms:
            return frozenset()
        return frozenset(self._waiting)

    def due_at_ms(self) -> int | None:
        """When to ask again; None where nothing waits, 0 for at once."""
        return (self._next_ms or 0) if self._waiting else None

    def told(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Others know of these. The pause begins where ISRs were among them."""
        told = self._waiting.intersection(partitions)
        if told:
            self._waiting -= told
            self._next_ms = now_ms + self._every_ms
