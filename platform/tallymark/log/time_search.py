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


def first_at_or_after(segment: Segment, timestamp: int) -> OffsetAt | None:
    """The first record of the segment whose timestamp is not before ``timestamp``."""
    if segment.max_timestamp < timestamp:
        return None
    start = segment.base_offset + segment.indexes.times.lookup(timestamp)
    for place in segment.places_from(start):
        if place.max_timestamp >= timestamp:
            for record in _records(segment, place):
                if record.timestamp >= timestamp:
                    return OffsetAt(record.offset, record.timestamp)
    return None


def greatest(segment: Segment) -> OffsetAt | None:
    """The first record that has the greatest timestamp of the segment."""
    indexes = segment.indexes
    for place in segment.places_from(segment.base_offset + indexes.max_relative):
        records = _records(segment, place)
        top = max(records, key=lambda record: record.timestamp)
        return OffsetAt(top.offset, top.timestamp)
    return None


def _records(segment: Segment, place: BatchPlace) -> Sequence[Record]:
    """The records of a batch. Nobody has looked into it when it was appended: one that does not
    decode counts as a single record at its first offset with the greatest timestamp it claims."""
    data = memoryview(segment.pread(place))
    try:
        records = Batch(read_header(data), data).records()
    except RemoteProtocolError:
        records = []
    return records or [Record(place.base_offset, place.max_timestamp, None, None, ())]
