"""Loads the producer state at a start: the newest snapshot, then the log from there on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tallymark.log.producers.snapshot import ProducerSnapshots
from tallymark.log.producers.state import ProducerStates
from tallymark.log.segments.segment_list import SegmentList
from tallymark.protocol.records.batch import BatchHeader

_TAIL: Final = 256 * 1024
"""Bytes at the end of the log that are looked through for the last batches of each producer."""


def load_producers(
    snapshots: ProducerSnapshots, segments: SegmentList, now_ms: int
) -> ProducerStates:
    """The state of the log's producers, up to its end.

    Batches in the log are remembered like new ones (five of each producer), so a batch that a
    producer retries after the broker was killed is recognised. Their age counts from ``now_ms``.
    """
    found = snapshots.newest(segments.active.next_offset)
    offset, states = found or (segments.start_offset, ProducerStates())
    for header in _headers_from(segments, offset):
        if header.producer_id >= 0:
            states.add(header, header.base_offset, now_ms)
    if len(states):
        states.deepen(_tail(segments))
    return states


def _headers_from(segments: SegmentList, offset: int) -> Iterator[BatchHeader]:
    for segment in segments.from_offset(offset):
        place = segment.find(offset)
        if place is not None:
            for _, header in segment.headers(place.position):
                yield header


def _tail(segments: SegmentList) -> Iterator[BatchHeader]:
    """The headers of about the last :data:`_TAIL` bytes, over several segments if need be."""
    wanted = _TAIL
    starts: list[int] = []
    for segment in reversed(tuple(segments)):
        starts.append(segment.indexes.offsets.position_before(max(segment.size - wanted, 0)))
        wanted -= segment.size
        if wanted <= 0:
            break
    tail = tuple(segments)[-len(starts) :]
    for segment, start in zip(tail, reversed(starts), strict=True):
        for _, header in segment.headers(start):
            yield header
