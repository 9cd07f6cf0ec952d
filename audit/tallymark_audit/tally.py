"""A reporter's own books: what it accepted, what became of it, and what of that was published.

A :class:`Tally` is told of every batch and asked for a report now and then. It does no I/O and
reads no clock; the journal records the same calls, so that replaying them gives the same books.

What is published follows three rules, which together let any event be lost:

* an event says all that is known of a cell, never what was added;
* a cell is repeated in the next ``REPEATS`` reports after it changed, and in any case until a
  report that holds it was acknowledged;
* a report says from which earlier one on it makes up for (``covers_from``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tallymark_audit.cells import window_of
from tallymark_audit.events import FOREVER, AuditEvent, CellReport, Kind
from tallymark_audit.ranges import EMPTY, RangeSet

REPEATS = 3
RANGES_PER_EVENT = 4000
CELLS_PER_EVENT = 500
"""Bounds of one event, so that it stays well below a megabyte; a larger report is split."""


class Outcome(IntEnum):
    """What became of an accepted record."""

    ACKNOWLEDGED = 1
    FAILED = 2
    IN_DOUBT = 3


class TallyKey(NamedTuple):
    """A cell at its reporter, who knows server and instance anyway."""

    topic: str
    partition: int
    window: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose books these are; the constant part of every event. Times in ms."""

    reporter: str
    server: str
    application: str
    instance: str
    window_ms: int
    started_at: int
    acks: int = -1
    backfill: bool = False
    kind: Kind = "producer"


@dataclass(slots=True)
class TallyCell:
    """One cell. ``carrier`` is the event that first told its present state, -1 while none has;
    ``touched`` (ms) is when it last changed."""

    part: int
    revision: int = 0
    count: int = 0
    bytes: int = 0
    accepted: RangeSet = EMPTY
    settled: dict[Outcome, RangeSet] = field(default_factory=dict[Outcome, RangeSet])
    min_timestamp: int = -1
    max_timestamp: int = -1
    skewed: int = 0
    carrier: int = -1
    touched: int = 0

    def outcome(self, outcome: Outcome) -> RangeSet:
        return self.settled.get(outcome, EMPTY)

    @property
    def pending(self) -> RangeSet:
        """Accepted, and not yet settled."""
        pending = self.accepted
        for settled in self.settled.values():
            pending = pending - settled
        return pending

    @property
    def weight(self) -> int:
        """How many ranges it takes to tell."""
        return len(self.accepted.ranges) + sum(len(s.ranges) for s in self.settled.values())


class Run(NamedTuple):
    """Consecutive sequences of one batch that fall in one window; timestamps in ms."""

    key: TallyKey
    first: int
    last: int
    min_timestamp: int
    max_timestamp: int


def runs_of(
    topic: str, partition: int, first_sequence: int, timestamps: Sequence[int], window_ms: int
) -> list[Run]:
    """A batch, cut where the window changes. ``timestamps`` has one (ms) a record, in order."""
    if not timestamps:
        return []
    low, high = min(timestamps), max(timestamps)
    window = window_of(low, window_ms)
    last = first_sequence + len(timestamps) - 1
    if window_of(high, window_ms) == window:
        return [Run(TallyKey(topic, partition, window), first_sequence, last, low, high)]
    return list(_cut(topic, partition, first_sequence, timestamps, window_ms))


def _cut(
    topic: str, partition: int, first_sequence: int, timestamps: Sequence[int], window_ms: int
) -> Iterator[Run]:
    start = 0
    windows = [window_of(timestamp, window_ms) for timestamp in timestamps]
    for at in range(1, len(windows) + 1):
        if at == len(windows) or windows[at] != windows[start]:
            some = timestamps[start:at]
            key = TallyKey(topic, partition, windows[start])
            yield Run(key, first_sequence + start, first_sequence + at - 1, min(some), max(some))
            start = at


@dataclass(slots=True)
class _Report:
    """A report under way: its events that are not yet acknowledged."""

    first: int
    last: int
    covers_from: int
    open: set[int]


class Tally:
    """The books of one reporter. Not thread-safe."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.cells: dict[TallyKey, TallyCell] = {}
        self.next_event = 0
        self.next_part = 0
        self.dropped_through = -1
        """The highest event that carries a cell that was since forgotten."""
        self._delivered = 0
        """Everything first told in an event below this number is known to be on the topic."""
        self._reports: deque[_Report] = deque()
        self._firsts: deque[int] = deque(maxlen=REPEATS)
        self._complete_through = 0

    def accept(self, run: Run, size: int, now_ms: int, skewed: int = 0) -> None:
        """The records of a run are about to be sent; ``size`` in bytes."""
        cell = self.cells.get(run.key)
        if cell is None:
            cell = self.cells[run.key] = TallyCell(self.next_part)
            self.next_part += 1
        cell.accepted = cell.accepted.add(run.first, run.last)
        cell.count += run.last - run.first + 1
        cell.bytes += size
        cell.skewed += skewed
        if cell.min_timestamp < 0 or run.min_timestamp < cell.min_timestamp:
            cell.min_timestamp = run.min_timestamp
        cell.max_timestamp = max(cell.max_timestamp, run.max_timestamp)
        self._changed(cell, now_ms)

    def settle(self, key: TallyKey, outcome: Outcome, first: int, last: int, now_ms: int) -> None:
        """It is known what became of these sequences. A cell that is not there is left alone."""
        cell = self.cells.get(key)
        if cell is not None:
            cell.settled[outcome] = cell.outcome(outcome).add(first, last)
            self._changed(cell, now_ms)

    def doubt_pending(self, now_ms: int) -> None:
        """The run is over: what is still pending will never be known."""
        for cell in self.cells.values():
            pending = cell.pending
            if pending:
                cell.settled[Outcome.IN_DOUBT] = cell.outcome(Outcome.IN_DOUBT) | pending
                self._changed(cell, now_ms)

    @property
    def waiting(self) -> int:
        """How many reports are published and not acknowledged."""
        return len(self._reports)

    @property
    def all_told(self) -> bool:
        """Whether everything in the books is known to be on the topic."""
        news = any(cell.carrier < 0 for cell in self.cells.values())
        return not news and self._delivered >= self.next_event

    def report(self, now_ms: int, complete_through: int, closed: bool = False) -> list[AuditEvent]:
        """The next report: one event, or several that belong together. A closing report repeats
        everything that is still remembered."""
        covers_from = self.dropped_through + 1 if closed else self._covers_from()
        portions = self._portions(covers_from)
        first = self.next_event
        self.next_event += len(portions)
        events: list[AuditEvent] = []
        for at, cells in enumerate(portions):
            number = first + at
            final = at == len(portions) - 1
            for key, _ in cells:
                if self.cells[key].carrier < 0:
                    self.cells[key].carrier = number
            events.append(
                self._event(
                    number,
                    now_ms,
                    [report for _, report in cells],
                    # Only the whole report makes up for others and may move the time on.
                    covers_from=covers_from if final else number,
                    group=len(portions) if final else 1,
                    complete_through=complete_through if final else self._complete_through,
                    closed=closed and final,
                )
            )
        self._complete_through = complete_through
        last = self.next_event - 1
        self._reports.append(_Report(first, last, covers_from, set(range(first, last + 1))))
        self._firsts.append(first)
        return events

    def published(self, event_number: int) -> None:
        """An event was acknowledged."""
        for report in self._reports:
            report.open.discard(event_number)
        for report in [report for report in self._reports if not report.open]:
            self._reports.remove(report)
            if report.covers_from <= self._delivered:
                self._delivered = max(self._delivered, report.last + 1)

    def not_published(self, event_number: int) -> None:
        """An event could not be published. Its number is spent: the next report makes up for it."""
        for report in list(self._reports):
            if event_number in report.open:
                self._reports.remove(report)

    def publish_again(self) -> None:
        """The audit topic may have lost events that were acknowledged: the next report repeats
        everything that is still remembered."""
        self._delivered = min(self._delivered, self.dropped_through + 1)

    def forget(self, before_ms: int) -> list[tuple[TallyKey, int]]:
        """Forget the cells that have not changed since ``before_ms``, are settled, and that no
        report to come repeats. Returns them with their carriers."""
        covered = self._covers_from()
        gone = [
            (key, cell.carrier)
            for key, cell in self.cells.items()
            if 0 <= cell.carrier < covered and cell.touched < before_ms and not cell.pending
        ]
        for key, carrier in gone:
            self.drop(key, carrier)
        return gone

    def drop(self, key: TallyKey, carrier: int) -> None:
        """Forget one cell; should it come back, it will be another part."""
        self.cells.pop(key, None)
        self.dropped_through = max(self.dropped_through, carrier)

    def _covers_from(self) -> int:
        oldest = self._firsts[0] if len(self._firsts) == REPEATS else 0
        return max(min(self._delivered, oldest), self.dropped_through + 1)

    def _changed(self, cell: TallyCell, now_ms: int) -> None:
        cell.revision += 1
        cell.carrier = -1
        cell.touched = now_ms

    def _portions(self, covers_from: int) -> list[list[tuple[TallyKey, CellReport]]]:
        portions: list[list[tuple[TallyKey, CellReport]]] = [[]]
        weight = 0
        for key, cell in self.cells.items():
            if 0 <= cell.carrier < covers_from:
                continue
            heavy = weight + cell.weight > RANGES_PER_EVENT
            if portions[-1] and (heavy or len(portions[-1]) == CELLS_PER_EVENT):
                portions.append([])
                weight = 0
            portions[-1].append((key, _cell_report(key, cell)))
            weight += cell.weight
        return portions

    def _event(
        self,
        number: int,
        now_ms: int,
        cells: Iterable[CellReport],
        *,
        covers_from: int,
        group: int,
        complete_through: int,
        closed: bool,
    ) -> AuditEvent:
        who = self.identity
        return AuditEvent(
            kind=who.kind,
            tier=who.kind,
            reporter=who.reporter,
            server=who.server,
            application=who.application,
            instance=who.instance,
            event_number=number,
            covers_from=covers_from,
            group=group,
            started_at=who.started_at,
            emitted_at=now_ms,
            window_ms=who.window_ms,
            complete_through=FOREVER if closed else complete_through,
            closed=closed,
            acks=who.acks,
            backfill=who.backfill,
            cells=tuple(cells),
        )


def _cell_report(key: TallyKey, cell: TallyCell) -> CellReport:
    return CellReport(
        topic=key.topic,
        partition=key.partition,
        window_start=key.window,
        part=cell.part,
        revision=cell.revision,
        count=cell.count,
        bytes=cell.bytes,
        accepted=cell.accepted,
        acknowledged=cell.outcome(Outcome.ACKNOWLEDGED),
        failed=cell.outcome(Outcome.FAILED),
        in_doubt=cell.outcome(Outcome.IN_DOUBT),
        min_timestamp=cell.min_timestamp,
        max_timestamp=cell.max_timestamp,
        skewed=cell.skewed,
    )
