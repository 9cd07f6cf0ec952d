"""Which logs need a compaction, and which of their segments are cleaned together. Pure.

::

    start            first dirty                 end            (recovery point, active segment)
    |  clean bytes   |   dirty bytes             |   never touched
    cleaned before   written since               first segment that is active, not flushed, not
                                                 committed, or younger than min.compaction.lag.ms

The dirty ratio is dirty / (clean + dirty), as Kafka computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tallymark.log.config import NEVER, LogConfig
from tallymark.log.segments.offset_index import MAX_RELATIVE


class ClosedSegment(NamedTuple):
    """Offsets from ``base_offset`` to below ``end_offset``; timestamps of its first batch and the
    greatest one in ms, -1 where there is none or it is not needed."""

    base_offset: int
    end_offset: int
    size: int
    first_timestamp: int = -1
    max_timestamp: int = -1


@dataclass(frozen=True, slots=True)
class Dirt:
    """How dirty a log is. ``overdue_ms``: for how long its oldest dirty record has been waiting
    beyond ``max.compaction.lag.ms``, 0 where it has not."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int

    @property
    def ratio(self) -> float:
        """Dirty bytes of all that can be cleaned, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def worth_it(self, config: LogConfig) -> bool:
        """Whether to clean now."""
        if not self.dirty_bytes:
            return False
        return self.overdue_ms > 0 or self.ratio >= config.min_cleanable_dirty_ratio


def assess(
    segments: Sequence[ClosedSegment],
    cleaned_until: int,
    safe: int,
    config: LogConfig,
    now_ms: int,
) -> Dirt:
    """How dirty these closed segments are, all of a log's but the active one.

    ``cleaned_until``: where the last compaction ended. Where that is not in the log (it was
    truncated, or created again) nothing counts as clean. ``safe``: what lies behind it is not on
    the disk yet, or not committed.
    """
    first = segments[0].base_offset if segments else 0
    last = segments[-1].end_offset if segments else 0
    first_dirty = cleaned_until if first <= cleaned_until <= last else first
    youngest = now_ms - config.min_compaction_lag_ms
    end = first
    clean = dirty = overdue = 0
    for segment in segments:
        is_dirty = segment.end_offset > first_dirty
        too_young = config.min_compaction_lag_ms > 0 and segment.max_timestamp > youngest
        if segment.end_offset > safe or (is_dirty and too_young):
            break
        if not is_dirty:
            clean += segment.size
        else:
            if not dirty and config.max_compaction_lag_ms < NEVER and segment.first_timestamp >= 0:
                overdue = now_ms - segment.first_timestamp - config.max_compaction_lag_ms
            dirty += segment.size
        end = segment.end_offset
    return Dirt(first_dirty, end, clean, dirty, max(overdue, 0))


def group_segments(
    segments: Sequence[ClosedSegment], segment_bytes: int
) -> list[tuple[ClosedSegment, ...]]:
    """Adjacent segments that become one: no larger than ``segment_bytes`` even if no record is
    removed, and with offsets that the index can hold."""
    groups: list[tuple[ClosedSegment, ...]] = []
    for segment in segments:
        if groups:
            group = groups[-1]
            size = sum(each.size for each in group) + segment.size
            span = segment.end_offset - 1 - group[0].base_offset
            if size <= segment_bytes and span <= MAX_RELATIVE:
                groups[-1] = (*group, segment)
                continue
        groups.append((segment,))
    return groups
