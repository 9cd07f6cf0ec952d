"""Finding records by their timestamp, exactly: the only place of the room that reads records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallymark.errors import RemoteProtocolError
from tallymark.log.scan import BatchPlace
from tallymark.log.segment import Segment
from tallymark.protocol.records import Batch, Record, read_header


class OffsetAt(NamedTuple):
    """An offset and the timestamp (ms) of its record."""

    offset: int
    timestamp: int


def first_at_or_after(segment: Segment, timestamp: int, start: int, until: int) -> OffsetAt | None:
    """The first record of the segment, of those from offset ``start`` to before ``until``, whose
    timestamp is not before ``timestamp``."""
    if segment.max_timestamp < timestamp:
        return None
    first = max(segment.base_offset + segment.indexes.times.lookup(timestamp), start)
    for place in segment.places_from(first):
        if place.base_offset >= until:
            return None
        if place.max_timestamp >= timestamp:
            for record in _records(segment, place):
                if record.timestamp >= timestamp and record.offset >= start:
                    return OffsetAt(record.offset, record.timestamp)
    return None


def greatest(segment: Segment, start: int, until: int) -> OffsetAt | None:
    """The first record that has the greatest timestamp of the segment, of those from offset
    ``start`` to before ``until``."""
    last = segment.base_offset + segment.indexes.max_relative
    if start <= segment.base_offset and last < until:
        for place in segment.places_from(last):
            if records := _records(segment, place):
                return _top(records)
            break
    # The index counts records that do not: deleted ones before, ones not shown behind, compacted
    # ones of a batch that stayed empty.
    best: OffsetAt | None = None
    for place in segment.places_from(start):
        if place.base_offset >= until:
            break
        if best is None or place.max_timestamp > best.timestamp:
            kept = [record for record in _records(segment, place) if record.offset >= start]
            top = _top(kept) if kept else None
            if top is not None and (best is None or top.timestamp > best.timestamp):
                best = top
    return best


def _top(records: Sequence[Record]) -> OffsetAt:
    top = max(records, key=lambda record: record.timestamp)
    return OffsetAt(top.offset, top.timestamp)


def _records(segment: Segment, place: BatchPlace) -> Sequence[Record]:
    """The records of a batch. Nobody has looked into it when it was appended: one that does not
    decode, or holds more than may be unpacked to find a time, counts as a single record at its
    first offset with the greatest timestamp it claims."""
    data = memoryview(segment.pread(place))
    try:
        batch = Batch(read_header(data), data)
        return batch.records(batch.usual_max_size)
    except RemoteProtocolError:
        return [Record(place.base_offset, place.max_timestamp, None, None, ())]
