"""The slow scrub: which window of which partition is read again next, and when. Pure.

The partitions take turns, a window at a time, so that a large one does not delay the others. The
position of each is in the store; at its end a partition rests, and starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.store.counted.recounts import FIRST, SLOW, RecountRequest

PASS_MS: Final = 3_600_000
"""A log is read no more often than this, however short it is."""
LEAST_BYTES: Final = 64 << 10
MOST_BYTES: Final = 1 << 20


@dataclass(slots=True)
class SlowScrub:
    """``rate``: bytes a second, 0: never. ``settled_ms``: the age (from its start) at which a
    window has settled for certain and is read again."""

    rate: int = 0
    settled_ms: int = 0
    _next_at: int = 0
    _turn: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    _turns: int = 0

    @property
    def portion(self) -> int:
        """Bytes to read at once."""
        return min(MOST_BYTES, max(LEAST_BYTES, self.rate))

    def due(self, now: int) -> bool:
        """Whether anything may be read now (ms)."""
        return self.rate > 0 and now >= self._next_at

    def spend(self, size: int, now: int) -> None:
        """So many bytes were read."""
        self._next_at = max(now, self._next_at) + size * 1000 // max(1, self.rate)

    def choose(
        self,
        places: Iterable[TopicPartition],
        known: Mapping[TopicPartition, RecountRequest],
        now: int,
    ) -> RecountRequest | None:
        """The request for the partition whose turn it is, of those that do not rest; None: none is
        due."""
        ready = [
            place
            for place in places
            if place not in known
            or known[place].asked_at <= now
            or known[place].next_window > FIRST
        ]
        if not ready:
            self._next_at = now + 1000
            return None
        place = min(ready, key=lambda one: (self._turn.get(one, -1), one))
        self._turns += 1
        self._turn[place] = self._turns
        one = known.get(place) or RecountRequest(*place, SLOW, FIRST, 0, FIRST, now)
        return replace(one, end=now - self.settled_ms)

    def again(self, one: RecountRequest, now: int) -> RecountRequest:
        """The request when all was read: from the beginning, when it is time."""
        return replace(one, next_window=FIRST, asked_at=now + PASS_MS)
