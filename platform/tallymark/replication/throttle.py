"""How fast replicas that are out of sync may be brought up (KIP-73).

Two limits, of a leader and of a follower, in bytes per second over all partitions that are listed
in ``leader.replication.throttled.replicas`` or ``follower....``. A replica in sync is never
throttled: it would fall out of the ISR. A token bucket of one second that may be overdrawn: at
least one batch passes however low the rate is, and the next one waits until it is paid for.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import UserError

MS: Final = 1000


class ReplicationThrottle:
    """One limit. ``rate`` is in bytes per second, None for no limit; it may change at any time."""

    __slots__ = ("_left", "_now_ms", "rate")

    def __init__(self, rate: int | None, now_ms: int) -> None:
        self.rate = rate
        self._left = (rate or 0) * MS  # in bytes / 1000, so that nothing is rounded
        self._now_ms = now_ms

    def set_rate(self, rate: int | None, now_ms: int) -> None:
        """From now on ``rate`` holds. What is overdrawn is still to be paid, at the new rate."""
        self._fill(now_ms)
        if self.rate is None and rate is not None:
            self._left = rate * MS
        self.rate = rate
        if rate is not None:
            self._left = min(self._left, rate * MS)

    def allows(self, now_ms: int) -> bool:
        """A batch may be sent now, of whatever size; report it with :meth:`charge`."""
        if self.rate is None:
            return True
        self._fill(now_ms)
        return self._left > 0

    def left(self, now_ms: int) -> int:
        """Bytes that may be sent now without being overdrawn; without a limit, any number."""
        if self.rate is None:
            return 2**63 - 1
        self._fill(now_ms)
        return max(0, -(-self._left // MS))

    def charge(self, size: int, now_ms: int) -> None:
        """``size`` bytes were sent for replicas that are throttled."""
        if self.rate is not None:
            self._fill(now_ms)
            self._left -= size * MS

    def wait_ms(self, now_ms: int) -> int:
        """How long it is until :meth:`allows`, 0 if it does now. The bytes of a rate of 0 are never
        paid: then a minute, after which it is asked again."""
        if self.allows(now_ms) or self.rate is None:
            return 0
        if self.rate == 0:
            return 60 * MS
        return -self._left // self.rate + 1

    def _fill(self, now_ms: int) -> None:
        passed, self._now_ms = max(0, now_ms - self._now_ms), max(now_ms, self._now_ms)
        if self.rate is not None:
            self._left = min(self.rate * MS, self._left + passed * self.rate)


class ThrottledReplicas:
    """Which replicas of a topic are throttled, as the topic's setting says: ``*`` for all, empty
    for none, else ``partition:broker,partition:broker``."""

    __slots__ = ("_all", "_pairs")

    def __init__(self, text: str) -> None:
        """Raises UserError for text that is none of these."""
        self._all = text.strip() == "*"
        self._pairs = frozenset() if self._all else frozenset(_pairs(text))

    def applies(self, partition: int, broker: int, *, in_sync: bool) -> bool:
        """The replica on ``broker`` is throttled now."""
        return not in_sync and (self._all or (partition, broker) in self._pairs)


def _pairs(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        partition, _, broker = part.partition(":")
        if not (partition.isdecimal() and broker.isdecimal()):
            raise UserError(
                f"throttled replicas: {part!r} is not partition:broker; "
                "write for example 0:1,0:2, or * for all replicas"
            )
        found.append((int(partition), int(broker)))
    return found
