"""Loads the producer state at a start: the newest snapshot, then the log from there on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tallymark.log.producers.aborted import Aborted, AbortedIndexes, aborted
from tallymark.log.producers.snapshot import ProducerSnapshots
from tallymark.log.producers.state import ProducerStates
from tallymark.log.producers.transactions import EndedTransaction
from tallymark.log.segments.segment_list import SegmentList
from tallymark.protocol.records.batch import Batch, BatchHeader
from tallymark.protocol.records.markers import marker_of

_TAIL: Final = 256 * 1024
"""Bytes at the end of the log that are looked through for the last batches of each producer."""


def load_producers(
    snapshots: ProducerSnapshots,
    segments: SegmentList,
    now_ms: int,
    *,
    high_watermark: int | None = None,
) -> ProducerStates:
    """The state of the log's producers, up to its end.

    Batches in the log are remembered like new ones (five of each producer), so a batch that a
    producer retries after the broker was killed is recognised. Their age counts from ``now_ms``.
    Of transactions that ended behind ``high_watermark`` (None: the end) readers must wait for the
    marker, so the log is read from a snapshot below it.
    """
    end = segments.active.next_offset
    passed = end if high_watermark is None else high_watermark
    found = snapshots.newest(end)
    if found is not None and high_watermark is not None and found[0] > high_watermark:
        found = snapshots.at_or_below(high_watermark)
    offset, states = found or (segments.start_offset, ProducerStates())
    for _, batch in _batches_from(segments, offset):
        if batch.header.producer_id >= 0:
            remember(states, batch, batch.header.base_offset, now_ms)
            states.transactions.passed(passed)  # not a million of them at a time
    if len(states):
        states.deepen(_tail(segments))
    return states


def remember(
    states: ProducerStates, batch: Batch, first_offset: int, now_ms: int
) -> EndedTransaction | None:
    """Note a batch of a producer that stands at ``first_offset``. Returns the transaction that it
    ends. CorruptRecordError for a control batch that cannot be read."""
    header = batch.header
    marker = marker_of(batch) if header.is_control else None
    if marker is None:
        states.add(header, first_offset, now_ms)
        return None
    return states.add_marker(header, marker, first_offset, now_ms)


def recover_aborted(
    snapshots: ProducerSnapshots,
    indexes: AbortedIndexes,
    segments: SegmentList,
    first: int,
    markers: bool,
) -> None:
    """Write the indexes of aborted transactions again of the segments from base offset ``first``
    on, which a recovery has verified. ``markers``: whether these have control batches."""
    recovered = [each.base_offset for each in segments.from_offset(first)]
    found: dict[int, list[Aborted]] = {base: [] for base in recovered}
    if markers:
        offset, states = snapshots.at_or_below(first) or (segments.start_offset, ProducerStates())
        for base, batch in _batches_from(segments, offset):
            if batch.header.producer_id >= 0:
                ended = remember(states, batch, batch.header.base_offset, 0)
                states.transactions.passed(batch.header.next_offset)
                if ended is not None and not ended.commit and base in found:
                    found[base].append(aborted(ended))
    for base, entries in found.items():
        indexes.put(base, entries)


def _batches_from(segments: SegmentList, offset: int) -> Iterator[tuple[int, Batch]]:
    """(base offset of the segment, batch) from ``offset`` on. Only control batches have their
    records: of the others nothing else is needed."""
    for segment in segments.from_offset(offset):
        place = segment.find(offset)
        if place is not None:
            for position, header in segment.headers(place.position):
                data = segment.file.pread(header.size, position) if header.is_control else b""
                yield segment.base_offset, Batch(header, memoryview(data))


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
