"""Finds records by their timestamp, exactly: the only module of the log that decodes stored records
to search."""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.errors import CorruptRecordError
from tallymark.log.segments.scan import BatchPlace
from tallymark.log.segments.segment import Segment
from tallymark.protocol.records.batch import HEADER_SIZE, read_header
from tallymark.protocol.records.check import check_count, check_records, find_record
from tallymark.protocol.records.compression import decompress, usual_max_size
from tallymark.protocol.schema import Buffer

_ANY: Final = -(1 << 70)


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
            found = _first(segment, place, start, timestamp)
            if found is not None:
                return found
    return None


def greatest(segment: Segment, start: int, until: int) -> OffsetAt | None:
    """The first record that has the greatest timestamp of the segment, of those from offset
    ``start`` to before ``until``."""
    last = segment.base_offset + segment.indexes.max_relative
    if start <= segment.base_offset and last < until:
        for place in segment.places_from(last):
            top = _first(segment, place, start, None)
            if top is not None:
                return top
            break
    # The index includes records that must not count: deleted ones before ``start``, ones behind
    # ``until``, and compacted ones of a batch that stayed empty.
    best: OffsetAt | None = None
    for place in segment.places_from(start):
        if place.base_offset >= until:
            break
        if best is None or place.max_timestamp > best.timestamp:
            top = _first(segment, place, start, None)
            if top is not None and (best is None or top.timestamp > best.timestamp):
                best = top
    return best


def _first(
    segment: Segment, place: BatchPlace, start: int, timestamp: int | None
) -> OffsetAt | None:
    """The first record of a batch, of those from offset ``start`` on, whose timestamp is not before
    ``timestamp``; None: one of the greatest. A batch that does not decode (from before records were
    checked), or that holds too much, counts as a single record at its first offset with the
    greatest timestamp in its header. No record is kept, so its claims take no memory."""
    data = memoryview(segment.pread(place))
    header = read_header(data)
    count, base = header.record_count, header.base_timestamp
    payload: Buffer = data[HEADER_SIZE:]
    try:
        payload = decompress(header.codec, payload, usual_max_size(len(data)))
        check_count("none", len(payload), count)
        check_records(payload, count, header.last_offset_delta)
    except CorruptRecordError:
        late = timestamp is not None and place.max_timestamp < timestamp
        if late or place.base_offset < start:
            return None
        return OffsetAt(place.base_offset, place.max_timestamp)
    since = None if timestamp is None else timestamp - base
    if header.is_log_append_time:  # they all have the batch's time
        if timestamp is not None and header.max_timestamp < timestamp:
            return None
        since = _ANY
    found = find_record(payload, count, start - header.base_offset, since)
    if found is None:
        return None
    at = header.max_timestamp if header.is_log_append_time else base + found[1]
    return OffsetAt(header.base_offset + found[0], at)
