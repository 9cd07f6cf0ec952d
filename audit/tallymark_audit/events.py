"""Monitoring events: what reporters publish on the audit topic.

A value is Avro *single-object encoding*: the schema's own fingerprint names the version, so the
schema registry may be down and an event of another version is recognised, not misread::

    0        2                                10
    +--------+--------------------------------+----------------------------+
    | C3 01  | CRC-64-AVRO of the schema, LE  | the datum, Avro binary     |
    +--------+--------------------------------+----------------------------+

An event is *cumulative*: its cells say all that is known about them so far, and per (cell, part)
the highest revision counts. ``covers_from`` says which earlier events it makes up for, so one that
was lost is healed by the next. Lists of ranges are flat: first, last, first, last, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, Final, Literal, cast

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tallymark.errors import RemoteProtocolError
from tallymark_audit.cells import CellKey, Claim
from tallymark_audit.event_schema import MARKER, SCHEMA
from tallymark_audit.ranges import EMPTY, RangeSet

Kind = Literal["producer", "mirror", "consumer", "lake"]
FOREVER: Final = 2**63 - 1
"""``complete_through`` of a closed reporter: nothing more will come."""
MAX_TEXT: Final = 255


@dataclass(frozen=True, slots=True)
class CellReport:
    """One cell as its reporter knows it now. ``part`` is the cell's incarnation at its reporter:
    one that was settled, forgotten and came back is a new part, and parts add up. Revisions rise
    with every change. Server and instance of the cell are the event's."""

    topic: str
    partition: int
    window_start: int
    part: int = 0
    revision: int = 0
    count: int = 0
    bytes: int = 0
    accepted: RangeSet = EMPTY
    acknowledged: RangeSet = EMPTY
    failed: RangeSet = EMPTY
    in_doubt: RangeSet = EMPTY
    min_timestamp: int = -1
    max_timestamp: int = -1
    skewed: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets ``first_offset..last_offset`` that a mirror could not copy, and why:
    compaction, control, truncation, retention or recreated. ``at`` is when it saw that, ms."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One report of one reporter (one run of whoever counts). Times are ms UTC.

    ``event_number`` counts 0, 1, 2 ... ``covers_from``: every change that was first published in
    an event from that number on is in this one too. ``group``: how many events, ending with this
    one, make up the report (a large one is split). ``complete_through``: every claim about a
    record stamped before it has been published up to this event."""

    kind: Kind
    reporter: str
    server: str
    application: str
    instance: str
    event_number: int
    covers_from: int
    emitted_at: int
    window_ms: int
    complete_through: int
    group: int = 1
    closed: bool = False
    acks: int = -1
    backfill: bool = False
    started_at: int = 0
    cells: tuple[CellReport, ...] = ()
    gaps: tuple[Gap, ...] = ()
    version: int = 1
    tier: str = "producer"

    def claim(self, cell: CellReport) -> Claim:
        """The cell of this event as a claim."""
        key = CellKey(cell.topic, cell.partition, cell.window_start, self.server, self.instance)
        return Claim(
            key=key,
            accepted=cell.accepted,
            acknowledged=cell.acknowledged,
            failed=cell.failed,
            in_doubt=cell.in_doubt,
            count=cell.count,
            bytes=cell.bytes,
            min_timestamp=cell.min_timestamp,
            max_timestamp=cell.max_timestamp,
            acks=self.acks,
        )


def encode_event(event: AuditEvent) -> bytes:
    """The value of the event's record."""
    out = BytesIO()
    out.write(MARKER)
    out.write(_fingerprint())
    fastavro.schemaless_writer(out, _schema(), _to_avro(event))
    return out.getvalue()


def decode_event(value: bytes | memoryview, window_ms: int | None = None) -> AuditEvent:
    """Read one event. RemoteProtocolError: not an audit event, of an unknown version, damaged, or
    about windows of another length than ``window_ms``, which cannot be compared; says which."""
    data = bytes(value)
    if data[:2] != MARKER:
        raise RemoteProtocolError("not an audit event: the value is not single-object Avro")
    if data[2:10] != _fingerprint():
        raise RemoteProtocolError(
            f"an audit event of another version: schema fingerprint {data[2:10].hex()}"
        )
    rest = BytesIO(data[10:])
    try:
        raw = fastavro.schemaless_reader(rest, _schema(), None)
        event = _from_avro(cast("dict[str, Any]", raw))
    except (EOFError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise RemoteProtocolError(f"a damaged audit event: {error}") from error
    if rest.read(1):
        raise RemoteProtocolError("a damaged audit event: bytes follow its end")
    if window_ms is not None and event.window_ms != window_ms:
        raise RemoteProtocolError(
            f"{event.reporter} on {event.server} counts in windows of {event.window_ms} ms, this "
            f"deployment in {window_ms}: start it with the deployment's settings"
        )
    return event


def _to_avro(event: AuditEvent) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in AuditEvent.__slots__}
    fields["cells"] = [_cell_to_avro(cell) for cell in event.cells]
    fields["gaps"] = [{name: getattr(gap, name) for name in Gap.__slots__} for gap in event.gaps]
    return fields


def _cell_to_avro(cell: CellReport) -> dict[str, Any]:
    fields = {name: getattr(cell, name) for name in CellReport.__slots__}
    return {k: v.to_list() if isinstance(v, RangeSet) else v for k, v in fields.items()}


def _from_avro(raw: dict[str, Any]) -> AuditEvent:
    _check_event(raw)
    cells = tuple(_cell_from_avro(cell) for cell in raw["cells"])
    gaps = tuple(Gap(**gap) for gap in raw["gaps"])
    for gap in gaps:
        _check_text("topic", gap.topic, MAX_TEXT)
        _check_text("reason", gap.reason, MAX_TEXT)
    fields: dict[str, Any] = {name: raw[name] for name in AuditEvent.__slots__}
    fields |= {"cells": cells, "gaps": gaps}
    return AuditEvent(**fields)


def _check_event(raw: dict[str, Any]) -> None:
    """What Avro cannot say. A bad report must not reach the store, whose columns are bounded."""
    if raw["version"] != 1:
        raise ValueError(f"version {raw['version']}")
    number, group = raw["event_number"], raw["group"]
    if not (0 <= raw["covers_from"] <= number and 1 <= group <= number + 1):
        raise ValueError(f"event {number} cannot cover from {raw['covers_from']}, group {group}")
    if len(raw["instance"]) not in (0, 16):
        raise ValueError("an instance is 16 hex digits")
    for name in ("kind", "reporter", "tier", "server", "application", "instance"):
        _check_text(name, raw[name], MAX_TEXT)


def _check_text(name: str, text: str, limit: int) -> None:
    if len(text) > limit or "\0" in text:
        raise ValueError(f"a {name} of {len(text)} characters, or with a NUL")


def _cell_from_avro(raw: dict[str, Any]) -> CellReport:
    _check_text("topic", raw["topic"], MAX_TEXT)
    if raw["partition"] < 0 or raw["count"] < 0 or raw["bytes"] < 0:
        raise ValueError("a cell with a negative partition, count or size")
    fields: dict[str, Any] = {
        name: RangeSet.from_list(value) if isinstance(value, list) else value
        for name, value in ((name, raw[name]) for name in CellReport.__slots__)
    }
    return CellReport(**fields)


@cache
def _schema() -> Any:
    return fastavro.parse_schema(SCHEMA)


@cache
def _fingerprint() -> bytes:
    """8 bytes, little endian, as the specification's single-object encoding wants them."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(SCHEMA), "CRC-64-AVRO"))
