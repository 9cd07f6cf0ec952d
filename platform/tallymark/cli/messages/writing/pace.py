"""When the next message is due: at so many a second, or as they came once. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Rate:
    """``per_second`` messages, evenly; 0: as fast as they go. A caller that fell behind catches
    up. ``begun`` and ``now`` in seconds of any clock."""

    per_second: float
    begun: float

    def due(self, number: int, now: float) -> float:
        """Seconds to wait before message ``number`` (from 0 on)."""
        if self.per_second <= 0:
            return 0.0
        return max(0.0, self.begun + number / self.per_second - now)


@dataclass(slots=True)
class Pace:
    """The distances of the original timestamps, divided by ``speed`` (2: twice as fast); 0: none.

    Timestamps that go backwards do not wait. ``now`` in seconds of any clock.
    """

    speed: float
    _begun: float | None = field(default=None, init=False)
    _first_ms: int = field(default=0, init=False)

    def due(self, timestamp_ms: int, now: float) -> float:
        """Seconds to wait before the message of that time; the first one goes at once."""
        if self.speed <= 0:
            return 0.0
        if self._begun is None:
            self._begun, self._first_ms = now, timestamp_ms
        return max(0.0, self._begun + (timestamp_ms - self._first_ms) / 1000 / self.speed - now)
