"""What a monitoring event cannot say, though it decodes. Pure; the collector and Spark both read
events through :func:`read_event`, so that neither takes a cell of an event that the other refuses.

The checksum of version 4 finds bits that were changed. These checks find what was written wrong,
and most of what was changed in events of older versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark_audit.ranges import RangeSet
from tallymark_audit.reports.events import AuditEvent, CellReport, decode_event

MOST_RECORDS: Final = 1 << 32
"""Records of one run in one window: more than anything can send in an hour, and few enough to be
hashed one by one."""
NAMED_BY_INSTANCE: Final = ("producer", "consumer")
"""Kinds of reporters that are one run each, called ``<kind>-<instance>``."""
KINDS: Final = (*NAMED_BY_INSTANCE, "mirror", "lake")
Place = tuple[str, int]
"""Topic and partition."""


def read_event(value: bytes | memoryview, window_ms: int) -> AuditEvent:
    """Decode one event of a deployment with windows of ``window_ms``. RemoteProtocolError: it
    cannot be decoded (:func:`~tallymark_audit.reports.events.decode_event`), or cannot be true."""
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
    for cell in event.cells:
        wrong = _wrong_cell(cell, event.window_ms)
        if wrong:
            return wrong
    return ""


def _wrong_cell(cell: CellReport, window_ms: int) -> str:
    if cell.window_start % window_ms:
        return f"a window that begins at {cell.window_start}, which is no multiple of {window_ms}"
    for ranges in _ranges_of(cell):
        if ranges and ranges.first < 0:
            return f"a sequence of {ranges.first}"
        if ranges.size > MOST_RECORDS:
            return f"{ranges.size} records in one window"
    return ""


def _ranges_of(cell: CellReport) -> Iterable[RangeSet]:
    yield from (cell.accepted, cell.acknowledged, cell.failed, cell.in_doubt)
    yield from (cell.aborted, cell.filtered, cell.expired, *cell.again)


def places_of(event: AuditEvent) -> set[Place]:
    """The partitions that the event's producer says it wrote to. What a consumer processed has the
    numbers of the partitions of its origin, which may be another cluster's: those are not asked."""
    if event.kind != "producer":
        return set()
    return {(cell.topic, cell.partition) for cell in event.cells}


def without_unknown(event: AuditEvent, unknown: Collection[Place]) -> AuditEvent | None:
    """The event without its cells of partitions that are not known. None: an event without a
    checksum that names no other may be wrong in everything else too, so nothing of it is taken.
    (One that names others, too, may speak of a topic that was deleted before it was counted.)"""
    named = places_of(event)
    if not named & set(unknown):
        return event
    if not event.checked and named <= set(unknown):
        return None
    kept = tuple(cell for cell in event.cells if (cell.topic, cell.partition) not in unknown)
    return replace(event, cells=kept)
