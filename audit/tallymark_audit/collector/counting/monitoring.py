"""Read monitoring events from record batches. What is not one is reported, never fatal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.protocol.records.batch import Record
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.event_checks import places_of, read_event, without_unknown
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store.counted.incidents import OTHERS, Incident

BAD_EVENT: Final = "bad-event"
CLOCK_OFF: Final = "clock-off"
UNKNOWN_PLACE: Final = "unknown-topic"
NOT_KNOWN: Final = "which is not known here (deleted before it was counted, or it never was)"
Unknown = Callable[[Set[TopicPartition]], Set[TopicPartition]]
"""Of these partitions those that the cluster does not have, and that were never counted."""
LARGEST: Final = (1 << 63) - 1
MOST_REASON: Final = 300
"""Characters of a reason: the sender of a bad event must not choose how much of it is kept."""
MOST_REASONS: Final = 20
"""Of a kind, different ones in what is read at once: each is looked for in the store."""


@dataclass(frozen=True, slots=True)
class MonitoringBatch:
    """The events at ``start`` and after in one fetch of the audit topic, and how many records are
    ``bad``: no events. ``trimmed``: the log no longer starts at 0."""

    partition: int
    events: tuple[AuditEvent, ...]
    bad: int
    trimmed: bool


@dataclass(slots=True)
class _Reading:
    events: list[tuple[int, AuditEvent]] = field(default_factory=list[tuple[int, AuditEvent]])
    """With their offsets."""
    odd: dict[tuple[str, str], list[int]] = field(default_factory=dict[tuple[str, str], list[int]])
    """Offsets of what is to be reported, by kind and reason."""

    def report(self, kind: str, reason: str, offset: int) -> None:
        text = reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        key = kind, text[:MOST_REASON]
        if key not in self.odd and sum(one == kind for one, _ in self.odd) >= MOST_REASONS:
            key = kind, OTHERS
        self.odd.setdefault(key, []).append(offset)


def events_in(
    records: Iterable[Record],
    partition: int,
    trimmed: bool,
    window_ms: int,
    now: int = LARGEST,
    skew_ms: int = 0,
    unknown: Unknown = lambda places: frozenset(),
) -> tuple[MonitoringBatch, list[Incident]]:
    """Decode every record; an event about windows of another length is bad too. The sending time of
    an event is limited to ``now`` (ms), when it was read: a reporter whose clock is ahead must not
    count as alive until then. A time more than ``skew_ms`` ahead is an incident. Claims about
    ``unknown`` partitions are left out. There is one incident for each reason."""
    read = _Reading()
    for record in records:
        event = _decoded(read, record.value or b"", record.offset, window_ms)
        if event is not None:
            event = _sent_by_now(read, event, record.offset, now, skew_ms)
            read.events.append((record.offset, event))
    events = _of_known_places(read, unknown)
    incidents = [
        Incident(kind, reason, AUDIT_TOPIC, partition, offsets[0], offsets[-1] + 1, len(offsets))
        for (kind, reason), offsets in read.odd.items()
    ]
    bad = sum(one.count for one in incidents if one.kind == BAD_EVENT)
    return MonitoringBatch(partition, events, bad, trimmed), incidents


def _of_known_places(read: _Reading, unknown: Unknown) -> tuple[AuditEvent, ...]:
    named = {place for _, event in read.events for place in places_of(event)}
    lacking = unknown(named) if named else frozenset[TopicPartition]()
    if not lacking:
        return tuple(event for _, event in read.events)
    kept: list[AuditEvent] = []
    for offset, event in read.events:
        believed = without_unknown(event, lacking)
        for topic, partition in sorted(places_of(event) & lacking):
            what = f"{event.reporter} claims records of {topic}-{partition}, {NOT_KNOWN}"
            read.report(BAD_EVENT if believed is None else UNKNOWN_PLACE, what, offset)
        if believed is not None:
            kept.append(believed)
    return tuple(kept)


def _decoded(read: _Reading, value: bytes, offset: int, window_ms: int) -> AuditEvent | None:
    try:
        return read_event(value, window_ms)
    except RemoteProtocolError as error:
        read.report(BAD_EVENT, str(error), offset)
        return None


def _sent_by_now(
    read: _Reading, event: AuditEvent, offset: int, now: int, skew_ms: int
) -> AuditEvent:
    if event.emitted_at <= now:
        return event
    if event.emitted_at - skew_ms > now:
        reason = f"the clock of {event.reporter} on {event.server} is ahead by more than is allowed"
        read.report(CLOCK_OFF, reason, offset)
    return replace(event, emitted_at=now)
