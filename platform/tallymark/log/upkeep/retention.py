"""Which segments are too old or too many. Pure: facts in, a number out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Facts(Protocol):
    """The facts about a segment: its bytes, and its greatest timestamp in ms (negative where it has
    none). The timestamp may have to be read from the disk, so it is read only where it decides."""

    @property
    def size(self) -> int: ...

    @property
    def max_timestamp(self) -> int: ...


class SegmentFacts(NamedTuple):
    """:class:`Facts` as a value."""

    size: int
    max_timestamp: int


def deletable(
    segments: Sequence[Facts], now_ms: int, retention_ms: int, retention_bytes: int
) -> int:
    """How many of the oldest segments to delete; the last, active one is among them when it expired
    too.

    Time: a segment is deleted when its newest record is older than ``retention_ms``. Size: the
    oldest are deleted while the rest is at least ``retention_bytes``. Negative means no limit.
    Deletion never leaves a gap: it stops at the first segment that stays. Records without a
    timestamp never expire.
    """
    surplus = sum(facts.size for facts in segments) - retention_bytes
    count = 0
    for facts in segments:
        too_many = retention_bytes >= 0 and facts.size <= surplus
        if facts.size == 0 or not (too_many or _expired(facts, now_ms, retention_ms)):
            break
        surplus -= facts.size
        count += 1
    return count


def _expired(facts: Facts, now_ms: int, retention_ms: int) -> bool:
    return retention_ms >= 0 and 0 <= facts.max_timestamp < now_ms - retention_ms
