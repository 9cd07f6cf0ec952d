"""Read monitoring events from record batches. What is not one is reported, never fatal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.records import Batch
from tallymark_audit.events import AuditEvent, decode_event


@dataclass(frozen=True, slots=True)
class MonitoringBatch:
    """The events at ``start`` and after in one fetch of the audit topic. ``bad`` are offsets and
    reasons of records that are no events. ``trimmed``: the log no longer starts at 0."""

    partition: int
    events: tuple[AuditEvent, ...]
    bad: tuple[tuple[int, str], ...]
    trimmed: bool


def read_events(
    batches: Iterable[Batch], partition: int, start: int, trimmed: bool, window_ms: int
) -> MonitoringBatch:
    """Decode every record at ``start`` and after; an event about windows of another length is bad
    too. CorruptRecordError: a batch cannot be read."""
    events: list[AuditEvent] = []
    bad: list[tuple[int, str]] = []
    for batch in batches:
        if batch.header.is_control:
            continue
        for record in batch.records():
            if record.offset < start:
                continue
            try:
                events.append(decode_event(record.value or b"", window_ms))
            except RemoteProtocolError as error:
                bad.append((record.offset, str(error)))
    return MonitoringBatch(partition, tuple(events), tuple(bad), trimmed)
