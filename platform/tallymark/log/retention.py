"""Which segments are too old or too many. Pure: facts in, a number out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SegmentFacts(NamedTuple):
    """``max_timestamp``: of the segment's records in ms, negative where they have none."""

    size: int
    max_timestamp: int


def deletable(
    segments: Sequence[SegmentFacts], now_ms: int, retention_ms: int, retention_bytes: int
) -> int:
    """How many of the oldest segments go; the last, active one is among them when it expired too.

    Time: a segment goes when its newest record is older than ``retention_ms``. Size: the oldest go
    while what remains is at least ``retention_bytes``. Negative means no limit. Deletion never
    leaves a hole: it stops at the first segment that stays. Records without a timestamp do not age.
    """
    surplus = sum(facts.size for facts in segments) - retention_bytes
    count = 0
    for facts in segments:
        expired = 0 <= retention_ms < now_ms - facts.max_timestamp and facts.max_timestamp >= 0
        too_many = retention_bytes >= 0 and facts.size <= surplus
        if facts.size == 0 or not (expired or too_many):
            break
        surplus -= facts.size
        count += 1
    return count
