"""Looks offsets up by time over all segments. Any thread may call it, but an event loop should not:
the indexes of old segments, and single records, may have to be read.

Only records from ``start`` (the log's start offset) to before ``until`` (its high watermark) count.
"""

from __future__ import annotations

from tallymark.log.segments.segment_list import SegmentList
from tallymark.log.segments.time_search import OffsetAt, first_at_or_after, greatest
from tallymark.protocol.topic_partition import EARLIEST, LATEST


def offset_for_time(
    segments: SegmentList, timestamp: int, start: int, until: int
) -> OffsetAt | None:
    """The first record whose timestamp (ms) is ``timestamp`` or later, None where there is none.
    Exact, also where timestamps are out of order."""
    for segment in segments:
        if found := first_at_or_after(segment, timestamp, start, until):
            return found
    return None


def max_timestamp(segments: SegmentList, start: int, until: int) -> OffsetAt | None:
    """The first record with the greatest timestamp of all, None where there is no record."""
    best: OffsetAt | None = None
    for segment in segments:
        if not segment.size or segment.base_offset >= until:
            continue
        if best is None or segment.max_timestamp > best.timestamp:
            found = greatest(segment, start, until)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
    return best


def offsets_before(
    segments: SegmentList, time_ms: int, max_offsets: int, start: int, until: int
) -> list[int]:
    """The base offsets of segments whose records are all at or before ``time_ms``, newest first, at
    most ``max_offsets``: ``getOffsetsBefore`` of the 0.7 design. :data:`LATEST`: the end and all
    beginnings; :data:`EARLIEST`: the first offset."""
    if time_ms == EARLIEST:
        return [start][:max_offsets]
    found = {
        max(segment.base_offset, start)
        for segment in segments
        if time_ms == LATEST or segment.max_timestamp <= time_ms
    }
    if time_ms == LATEST:
        found.add(until)
    return sorted((offset for offset in found if offset <= until), reverse=True)[:max_offsets]
