"""Cutting a segment at its end.

The segment is replaced in its list, not changed: readers that have the old one get SegmentGoneError
where they do not find what they look for, and take the list again.
"""

from __future__ import annotations

from tallymark.log.disk.files import Files
from tallymark.log.segments.indexes import SegmentIndexes
from tallymark.log.segments.segment import Segment


def shortened(
    segment: Segment, files: Files, interval: int, position: int, next_offset: int
) -> Segment:
    """Cut the file at ``position``, between two batches, and its indexes, durably. Returns the
    segment that takes its place, up to ``next_offset``; ``interval`` is that of its indexes."""
    indexes = _indexes_before(segment, interval, position, next_offset)
    file = segment.file
    segment.removed = True
    file.truncate(position)
    file.handle.sync()
    indexes.settle(files)
    segment.close()
    directory = segment.stem.rpartition("/")[0]
    cut = Segment.open(files, directory, segment.base_offset, interval)
    cut.end_at(next_offset)
    return cut


def end_before(segment: Segment, position: int) -> int:
    """The offset behind the last batch that ends at or before ``position``, the beginning of a
    batch or the end of the file."""
    end = segment.base_offset
    start = segment.indexes.offsets.position_before(max(position - 1, 0))
    for at, header in segment.headers(start):
        if at >= position:
            break
        end = header.next_offset
    return end


def _indexes_before(
    segment: Segment, interval: int, position: int, next_offset: int
) -> SegmentIndexes:
    if not position:
        return SegmentIndexes(segment.stem, interval)
    relative = next_offset - segment.base_offset
    indexes, start = segment.indexes.before(position, relative)
    for at, header in segment.headers(start):
        if at >= position:
            break
        indexes.seen(header.last_offset - segment.base_offset, header.max_timestamp)
    return indexes
