"""The folder of one log: finds its segments at a start, and removes files that do not belong
there."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from tallymark.log.config import LogConfig
from tallymark.log.disk.files import Files
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.segment_list import SegmentList
from tallymark.log.segments.swap_files import BESIDE, CLEANED, SWAP, complete_swaps

_LEFTOVERS: Final = (".tmp", ".deleted", CLEANED, SWAP)


def open_segments(files: Files, directory: str, config: LogConfig) -> SegmentList:
    """The segments of the folder; a first empty one where there is none. Removes what a crash has
    left: an unfinished compaction, unfinished files, indexes without a log."""
    complete_swaps(files, directory)
    names = files.listdir(directory)
    bases = sorted(int(n[:-4]) for n in names if n.endswith(".log") and n[:-4].isdigit())
    for name in names:
        stem, _, suffix = name.rpartition(".")
        orphan = f".{suffix}" in BESIDE and stem.isdigit() and int(stem) not in bases
        if orphan or name.endswith(_LEFTOVERS):
            files.remove(f"{directory}/{name}")
    interval = config.index_interval_bytes
    if not bases:
        return SegmentList((Segment.create(files, directory, 0, interval),))
    segments = tuple(Segment.open(files, directory, base, interval) for base in bases)
    for segment, following in pairwise(segments):
        segment.end_at(following.base_offset)
    return SegmentList(segments)


def find_end(segment: Segment) -> bool:
    """Set ``next_offset`` of the newest segment after a clean stop, stepping from the last entry of
    its index on. False where the file does not end with a whole batch: it needs recovery."""
    if segment.size == 0:
        return True
    offsets = segment.indexes.offsets
    end = offsets.entry(-1)[1] if len(offsets) else 0
    for position, header in segment.headers(end):
        end = position + header.size
        segment.end_at(header.next_offset)
    return end == segment.size


def drop_before(files: Files, directory: str, segments: SegmentList, offset: int) -> SegmentList:
    """Without the segments that lie wholly before ``offset``."""
    return _without_first(files, directory, segments, segments.ended_before(offset))


def begin_at(
    files: Files, directory: str, config: LogConfig, segments: SegmentList, offset: int
) -> SegmentList:
    """A log that begins and ends at ``offset``, after all existing records: everything below it was
    deleted, and then a power failure lost the records at the end."""
    new = Segment.create(files, directory, offset, config.index_interval_bytes)
    return _without_first(files, directory, segments.added(new), len(segments))


def _without_first(files: Files, directory: str, segments: SegmentList, count: int) -> SegmentList:
    if count:
        files.sync_dir(directory)  # first the names that stay
        for segment in tuple(segments)[:count]:
            segment.remove()
    return segments.without_first(count)
