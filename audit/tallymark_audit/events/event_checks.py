"""What a monitoring event must not contain, though it decodes. Pure; the collector and Spark both
read events through :func:`read_event`, so that neither takes a cell of an event that the other
refuses.

The checksum of version 4 finds changed bits. These checks find wrong values, and most changes in
events of older versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.model.ranges import RangeSet

MOST_RECORDS: Final = 1 << 32
"""Records of one run in one window: more than anything can send in an hour."""
MOST_BYTES: Final = 1 << 44
"""Their bytes. Sums over half a million cells of what is below fit 64 bits, as the store's do."""
MOST_PARTITION: Final = (1 << 31) - 1
MOST_NUMBER: Final = 1 << 62
"""Of an offset, an event or a revision: what follows it fits 64 bits, too."""
NAMED_BY_INSTANCE: Final = ("producer", "consumer")
"""Kinds of reporters that are one run each, called ``<kind>-<instance>``."""
KINDS: Final = (*NAMED_BY_INSTANCE, "mirror", "lake")


def read_event(value: bytes | memoryview, window_ms: int) -> AuditEvent:
    """Decode one event of a deployment with windows of ``window_ms``. RemoteProtocolError: it
    cannot be decoded (:func:`~tallymark_audit.events.events.decode_event`), or cannot be true."""
    event = decode_event(value, window_ms)
    absurd = absurdity(event)
    if absurd:
        raise RemoteProtocolError(f"an absurd audit event of {event.reporter}: {absurd}")
    return event


def absurdity(event: AuditEvent) -> str:
    """Why the event cannot be true; nothing if it can."""
    if event.kind not in KINDS or event.tier != event.kind:
        return f"a {event.kind!r} that counts in the tier {event.tier!r}"
    if event.kind in NAMED_BY_INSTANCE:
        if event.reporter != f"{event.kind}-{event.instance}":
            return f"its instance is {event.instance!r}"
    elif event.kind == "mirror" and event.cells:
        return "a mirror reports no cells"
    elif event.kind == "lake" and not event.reporter.endswith(f"@{event.instance}"):
        return f"its table is {event.instance!r}"
    if event.event_number > MOST_NUMBER:
        return f"an event {event.event_number}"
    for cell in event.cells:
        wrong = _wrong_cell(cell, event.window_ms) or _wrong_numbers(cell)
        if wrong:
            return wrong
    return _wrong_offsets(event)


def _wrong_offsets(event: AuditEvent) -> str:
    for gap in event.gaps:
        if not (0 <= gap.partition <= MOST_PARTITION and gap.first_offset >= 0):
            return f"a gap in partition {gap.partition} from offset {gap.first_offset} on"
        if gap.last_offset > MOST_NUMBER:
            return f"a gap up to offset {gap.last_offset}"
    for one in event.copied:
        if not (0 <= one.partition <= MOST_PARTITION and 0 <= one.records <= MOST_NUMBER):
            return f"{one.records} records of partition {one.partition}"
        if not 0 <= one.through_offset <= MOST_NUMBER:
            return f"a partition that is done up to offset {one.through_offset}"
    return ""


def _wrong_numbers(cell: CellReport) -> str:
    """Numbers that no cell has: one alone, or the sum of two, may not fit the store."""
    if cell.partition > MOST_PARTITION or cell.bytes > MOST_BYTES:
        return f"{cell.bytes} bytes in partition {cell.partition}"
    if not (0 <= cell.part <= MOST_NUMBER and 0 <= cell.revision <= MOST_NUMBER):
        return f"revision {cell.revision} of part {cell.part} of a cell"
    counts = (cell.count, cell.duplicates, cell.skewed, cell.unstamped, cell.malformed)
    summed = cell.summary[:4] if cell.summary else ()
    for number in (*counts, *summed, *(block.records for block in cell.blocks)):
        if not 0 <= number <= MOST_RECORDS:
            return f"{number} records in one window"
    timed = sum(cell.latency[1::2])
    return f"{timed} records in one window" if timed > 2 * MOST_RECORDS else ""


def _wrong_cell(cell: CellReport, window_ms: int) -> str:
    if cell.window_start % window_ms:
        return f"a window that begins at {cell.window_start}, which is no multiple of {window_ms}"
    if cell.window_start < -window_ms:
        return f"a window that begins at {cell.window_start}, where what has no time does not lie"
    for ranges in _ranges_of(cell):
        if ranges and ranges.first < 0:
            return f"a sequence of {ranges.first}"
        if ranges.size > MOST_RECORDS:
            return f"{ranges.size} records in one window"
    return ""


def _ranges_of(cell: CellReport) -> Iterable[RangeSet]:
    yield from (cell.accepted, cell.acknowledged, cell.failed, cell.in_doubt)
    yield from (cell.aborted, cell.filtered, cell.expired, *cell.again)


def places_of(event: AuditEvent) -> set[TopicPartition]:
    """The partitions that the event's producer reports to have written to. A consumer reports
    partition numbers of the origin, which may be another cluster: of its topics only partition 0 is
    checked, which every topic has."""
    return {_place_of(event, cell) for cell in event.cells}


def _place_of(event: AuditEvent, cell: CellReport) -> TopicPartition:
    return cell.topic, cell.partition if event.kind == "producer" else 0


def without_unknown(event: AuditEvent, unknown: Collection[TopicPartition]) -> AuditEvent | None:
    """The event without its cells of partitions that are not known. None: an event without a
    checksum that names no other may be wrong in everything else too, so nothing of it is taken.
    (One that names others, too, may speak of a topic that was deleted before it was counted.)"""
    named = places_of(event)
    if not named & set(unknown):
        return event
    if not event.checked and named <= set(unknown):
        return None
    kept = tuple(cell for cell in event.cells if _place_of(event, cell) not in unknown)
    return replace(event, cells=kept)
