"""Monitoring events: what reporters publish on the audit topic, as values in memory.

An event is *cumulative*: its cells have all that is known about them so far, and per (cell, part)
the highest revision counts. ``covers_from`` says which earlier events it replaces, so the next
event repairs the loss of one. :mod:`.event_codec` has their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from tallymark_audit.model.cells import Block, CellKey, Summary
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import Levels
from tallymark_audit.model.sides import Claim

Kind = Literal["producer", "mirror", "consumer", "lake"]
MAX_TEXT: Final = 255


@dataclass(frozen=True, slots=True)
class CellReport:
    """One cell as its reporter knows it now. ``part`` is the cell's incarnation at its reporter: a
    cell that was settled, dropped from memory and then written again is a new part, and parts add
    up. Revisions rise with every change. Server and instance are the sender's, ``""`` where they
    are the event's own: a consumer reports cells of many producers.

    ``again``: which sequences a consumer processed beyond once, where they are known: all of them
    if they are as many as ``duplicates``.

    ``summary`` stands in place of all ranges in a cell that had more than may be kept. ``latency``
    is a flat sketch (:mod:`tallymark_audit.model.sketches`) of ms from stamp to acknowledgement, of
    a consumer to when it was processed."""

    topic: str
    partition: int
    window_start: int
    server: str = ""
    instance: str = ""
    part: int = 0
    revision: int = 0
    count: int = 0
    bytes: int = 0
    accepted: RangeSet = EMPTY
    acknowledged: RangeSet = EMPTY
    failed: RangeSet = EMPTY
    in_doubt: RangeSet = EMPTY
    aborted: RangeSet = EMPTY
    filtered: RangeSet = EMPTY
    expired: RangeSet = EMPTY
    again: Levels = ()
    duplicates: int = 0
    summary: Summary | None = None
    blocks: tuple[Block, ...] = ()
    latency: tuple[int, ...] = ()
    min_timestamp: int = -1
    max_timestamp: int = -1
    skewed: int = 0
    unstamped: int = 0
    malformed: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets ``first_offset..last_offset`` that a mirror could not copy, and why:
    compaction, control, aborted, truncation or retention. ``at`` is when it saw that, ms. There is
    no empty one."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Copied:
    """How far a mirror, a group or a load has come with a partition: every offset of ``topic``
    upstream below ``through_offset`` is in ``target_topic`` downstream, acknowledged, or in a gap.
    ``topic_id`` (32 hex digits, or ``""``) distinguishes a topic from its successor of the same
    name. ``records``: since the reporter began."""

    topic: str
    partition: int
    target_topic: str
    topic_id: str = ""
    through_offset: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One report of one reporter, which is one run of a producer, a mirror or a consumer. Times are
    ms UTC.

    ``event_number`` counts 0, 1, 2 ... ``covers_from``: every change that was first published in
    an event from that number on is in this one too. ``group``: how many events, ending with this
    one, make up the report (a large one is split). ``complete_through``: every claim about a
    record stamped before it has been published up to this event. ``checked``: it has a checksum,
    as all have that are written now."""

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
    copied: tuple[Copied, ...] = ()
    consumer_group: str = ""
    tier: str = "producer"
    checked: bool = field(default=True, compare=False)

    def claim(self, cell: CellReport) -> Claim:
        """The cell of this event as a claim; for a consumer, what it reports as processed, for a
        table of the lake, what was loaded. Such a table never sends: its cells without a sender
        hold records without a stamp."""
        named = cell.instance or self.kind == "lake"
        who = (cell.server, cell.instance) if named else (self.server, self.instance)
        key = CellKey(cell.topic, cell.partition, cell.window_start, *who)
        return Claim(
            key=key,
            accepted=cell.accepted,
            acknowledged=cell.acknowledged,
            failed=cell.failed,
            in_doubt=cell.in_doubt,
            aborted=cell.aborted,
            filtered=cell.filtered,
            expired=cell.expired,
            summary=cell.summary,
            blocks=cell.blocks,
            count=cell.count,
            bytes=cell.bytes,
            min_timestamp=cell.min_timestamp,
            max_timestamp=cell.max_timestamp,
            acks=self.acks,
            again=cell.again,
            duplicate_count=cell.duplicates,
            latency=cell.latency,
            skewed=cell.skewed,
            unstamped=cell.unstamped,
            malformed=cell.malformed,
        )
