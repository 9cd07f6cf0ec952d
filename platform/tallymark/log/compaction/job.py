"""Makes the task of a compaction from a log that is in use, without waiting long."""

from __future__ import annotations

from tallymark.log.compaction.plan import ClosedSegment, Dirt, assess
from tallymark.log.compaction.task import CompactionTask
from tallymark.log.config import NEVER
from tallymark.log.log import Log
from tallymark.log.segments.segment import Segment, SegmentGoneError


def dirt_of(target: Log, cleaned_until: int, now_ms: int, until: int | None = None) -> Dirt:
    """How dirty the log is below ``until``, the partition's last stable offset (None: the end). Any
    thread may call it. Reads indexes only where a compaction lag is set."""
    safe = target.recovery_point if until is None else min(target.recovery_point, until)
    return assess(closed_segments(target), cleaned_until, safe, target.config, now_ms)


def closed_segments(target: Log) -> tuple[ClosedSegment, ...]:
    """The segments of the log but the active one; with their times where the config needs them."""
    config = target.config
    first = config.max_compaction_lag_ms < NEVER
    last = config.min_compaction_lag_ms > 0
    while True:
        try:
            return tuple(_facts(each, first, last) for each in target.closed_segments)
        except SegmentGoneError:
            continue  # retention has just removed it


def _facts(segment: Segment, first: bool, last: bool) -> ClosedSegment:
    return ClosedSegment(
        segment.base_offset,
        segment.next_offset,
        segment.size,
        _first_timestamp(segment) if first else -1,
        segment.max_timestamp if last else -1,
    )


def _first_timestamp(segment: Segment) -> int:
    for place in segment.places_from(segment.base_offset):
        return place.max_timestamp
    return -1


def task_of(
    target: Log, dirt: Dirt, now_ms: int, map_bytes: int, bytes_per_second: int = -1
) -> CompactionTask:
    """The task to clean the log up to the end of its dirty part. For the owner's thread."""
    config = target.config
    segments = tuple(
        ClosedSegment(each.base_offset, each.next_offset, each.size)
        for each in target.closed_segments
        if each.next_offset <= dirt.end
    )
    return CompactionTask(
        target.directory,
        segments,
        dirt.first_dirty,
        config.segment_bytes,
        config.index_interval_bytes,
        config.delete_retention_ms,
        now_ms,
        map_bytes,
        bytes_per_second,
        {
            each.producer_id: each.batches[-1].last_offset
            for each in target.producers
            if each.batches
        },
    )
