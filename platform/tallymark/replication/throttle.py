"""How fast replicas that are out of sync may be brought up (KIP-73).

Two limits, of a leader and of a follower, in bytes per second over all partitions that are listed
in ``leader.replication.throttled.replicas`` or ``follower....``. A replica in sync is never
throttled: it would fall out of the ISR. A token bucket of one second that may be overdrawn: at
least one batch passes however low the rate is, and the next one waits until it is paid for.

What a tool writes there for moves (:func:`throttles_for`, as ``kafka-reassign-partitions
--throttle`` does)::

    t-0 is on 1 2, and moves to 2 3     leaders (where it may come from)   0:1,0:2
                                        followers (who has to copy it)     0:3
                                        brokers with a rate                1 2 3
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition

MS: Final = 1000
LONGEST_LIST: Final = 30_000
"""Characters; a longer list of a topic is written as ``*``."""
_ALL: Final = "*"


class ReplicationThrottle:
    """One limit. ``rate`` is in bytes per second, None for no limit; it may change at any time.
    ``charged``: all bytes that counted for a limit."""

    __slots__ = ("_left", "_now_ms", "charged", "rate")

    def __init__(self, rate: int | None, now_ms: int) -> None:
        self.rate = rate
        self.charged = 0
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
            self.charged += size

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


class MovingReplicas(NamedTuple):
    """A partition that moves, or is to: the brokers that have it, and those that it goes to."""

    current: Sequence[int]
    target: Sequence[int]


class ThrottledTopic(NamedTuple):
    """The two settings of a topic, ``partition:broker,...``."""

    leaders: str
    followers: str


class MoveThrottles(NamedTuple):
    """Topic -> its settings, and the brokers that need the rate."""

    topics: Mapping[str, ThrottledTopic]
    brokers: frozenset[int]


def throttles_for(moves: Mapping[TopicPartition, MovingReplicas]) -> MoveThrottles:
    """What to throttle while these partitions move. A move that copies nothing (a change of order,
    fewer replicas) needs nothing."""
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    for (topic, index), (current, target) in sorted(moves.items()):
        new = sorted(set(target) - set(current))
        if new:
            leaders[topic] += [f"{index}:{one}" for one in sorted(current)]
            followers[topic] += [f"{index}:{one}" for one in new]
            brokers.update(current, new)
    topics = {
        topic: ThrottledTopic(_text(leaders[topic]), _text(followers[topic])) for topic in leaders
    }
    return MoveThrottles(topics, frozenset(brokers))


def _text(pairs: Sequence[str]) -> str:
    text = ",".join(pairs)
    return text if len(text) <= LONGEST_LIST else _ALL
