"""A reporter's own books: what it accepted, what became of it, and what of that was published.

A :class:`Tally` counts every batch and makes a report now and then. It does no I/O and reads no
clock; the journal records the same calls, so that replaying them gives the same books.

What is published follows three rules, which together let any event be lost:

* an event holds all that is known of a cell, never only what was added;
* a cell is repeated until ``REPEATS`` more reports were acknowledged after the report that first
  held its present state;
* a report says which earlier reports it replaces (``covers_from``: the first of them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.events.events import AuditEvent, CellReport, Kind
from tallymark_audit.model.cells import FOREVER, Block
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sketches import add
from tallymark_audit.reporters.books.runs import Run, TallyKey, runs_of
from tallymark_audit.reporters.books.tally_cell import Outcome, TallyCell

__all__ = ["Outcome", "ReporterIdentity", "Run", "Tally", "TallyCell", "TallyKey", "runs_of"]

REPEATS: Final = 3
RANGES_PER_EVENT: Final = 4000
CELLS_PER_EVENT: Final = 500
"""Bounds of one event, so that it stays well below a megabyte; a larger report is split."""
MOST_RANGES: Final = 50_000
"""A cell is reported in one event, whatever the settings allow: this many ranges take up to 900 kB.
"""
LEAST: Final = 100
"""Ranges that an event may hold, however small the largest message of the cluster is."""
MAX_CELLS: Final = 20_000
"""Cells kept at a time, some 1.4 kB each. See :meth:`Tally.leave_out`."""


@dataclass(frozen=True, slots=True)
class ReporterIdentity:
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
class _Report:
    """A report that is not yet acknowledged: its ``open`` events. ``reports_from``: what was first
    reported from that event on was not known to have arrived before this report."""

    reports_from: int
    last: int
    covers_from: int
    open: set[int]


class Tally:
    """The books of one reporter. Not thread-safe. ``transaction``: how far the open one is, which
    has all that is pending; None: there is none."""

    def __init__(self, identity: ReporterIdentity, max_ranges: int = 10_000) -> None:
        """``max_ranges`` are kept of a cell, :data:`MOST_RANGES` at most."""
        self.identity = identity
        self.max_ranges = min(max_ranges, MOST_RANGES)
        self.max_cells = MAX_CELLS
        self._per_event = RANGES_PER_EVENT, CELLS_PER_EVENT
        self.cells: dict[TallyKey, TallyCell] = {}
        self.left_out = 0
        """Records that are in no cell."""
        self.left_out_from = FOREVER
        """The smallest timestamp (ms) of these."""
        self.has_changed = False
        """Whether anything has changed since the last report."""
        self.next_event = 0
        self.next_part = 0
        self.dropped_through = -1
        """The highest event that carries a cell that was since forgotten."""
        self.delivered = 0
        """Everything first reported in an event below this number is known to be on the topic."""
        self.transaction: TransactionStage | None = None
        self._reports: deque[_Report] = deque()
        self._firsts: deque[int] = deque(maxlen=REPEATS)
        """What the reports that were acknowledged last were the first to bring is repeated: from
        which event on."""
        self._complete_through = 0

    def accept(self, run: Run, size: int, now_ms: int, skewed: int = 0) -> None:
        """The records of a run are about to be sent; ``size`` in bytes, ``skewed`` of them are
        stamped implausibly."""
        cell = self.cells.get(run.key)
        if cell is None:
            cell = self.cells[run.key] = TallyCell(self.next_part)
            self.next_part += 1
        self.accept_in(cell, run, size, now_ms, skewed)

    def accept_in(self, cell: TallyCell, run: Run, size: int, now_ms: int, skewed: int = 0) -> None:
        """:meth:`accept` for a caller that has the run's cell."""
        cell.accept(run, size, skewed, self.max_ranges)
        self._changed(cell, now_ms)

    def settle(
        self,
        key: TallyKey,
        outcome: Outcome,
        first: int,
        last: int,
        now_ms: int,
        latency: int | None = None,
    ) -> None:
        """These sequences ended with this outcome, after ``latency`` (ms) where it is known. Does
        nothing if there is no such cell."""
        cell = self.cells.get(key)
        if cell is not None:
            self.settle_in(cell, outcome, first, last, now_ms, latency)

    def settle_in(
        self,
        cell: TallyCell,
        outcome: Outcome,
        first: int,
        last: int,
        now_ms: int,
        latency: int | None = None,
    ) -> None:
        """:meth:`settle` for a caller that has the cell."""
        cell.settle(outcome, first, last, self.max_ranges)
        if latency is not None:
            add(cell.latency, latency, last - first + 1)
        self._changed(cell, now_ms)

    def fold(self, key: TallyKey, blocks: Iterable[Block]) -> None:
        """Add the contents of records that were just acknowledged."""
        cell = self.cells.get(key)
        if cell is not None:
            cell.fold(blocks)
            self._changed(cell, cell.touched)

    def note(
        self,
        key: TallyKey,
        now_ms: int,
        again: RangeSet = EMPTY,
        unstamped: int = 0,
        malformed: int = 0,
    ) -> None:
        """Of a consumer: these sequences were processed ``again``; so many records have no stamp
        (``unstamped``), or one that cannot be read (``malformed``)."""
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = TallyCell(self.next_part)
            self.next_part += 1
        cell.repeat(again, self.max_ranges)
        cell.unstamped += unstamped
        cell.malformed += malformed
        self._changed(cell, now_ms)

    def settle_pending(self, now_ms: int, outcome: Outcome) -> None:
        """The run is over: what is still pending ended like this."""
        for cell in self.cells.values():
            if cell.settle_pending(outcome):
                self._changed(cell, now_ms)

    def has_room(self, key: TallyKey) -> bool:
        """Whether a run may be accepted into the books."""
        return key in self.cells or len(self.cells) < self.max_cells

    def leave_out(self, records: int, from_ms: int) -> None:
        """There is no room for these records: reports do not arrive, and the timestamps are so far
        apart that each opens a cell. They are not claimed. From the smallest of their timestamps on
        the books are never complete again, nor closed: what is missing there is not known."""
        self.left_out += records
        self.left_out_from = min(self.left_out_from, from_ms)

    @property
    def waiting(self) -> int:
        """How many reports are published and not acknowledged."""
        return len(self._reports)

    @property
    def all_published(self) -> bool:
        """Whether everything in the books is known to be on the topic."""
        has_changed = any(cell.carrier < 0 for cell in self.cells.values())
        return not has_changed and self.delivered >= self.next_event

    def report(self, now_ms: int, complete_through: int, closed: bool = False) -> list[AuditEvent]:
        """The next report: one event, or several that belong together. A closing report repeats
        everything that the books still hold."""
        complete_through = min(FOREVER if closed else complete_through, self.left_out_from)
        closed = closed and not self.left_out
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
        self.has_changed = False
        last = self.next_event - 1
        open_ = set(range(first, last + 1))
        self._reports.append(_Report(min(first, self.delivered), last, covers_from, open_))
        return events

    def published(self, event_number: int) -> None:
        """An event was acknowledged."""
        for report in self._reports:
            report.open.discard(event_number)
        for report in [report for report in self._reports if not report.open]:
            self._reports.remove(report)
            self._firsts.append(report.reports_from)
            if report.covers_from <= self.delivered:
                self.delivered = max(self.delivered, report.last + 1)

    def not_published(self, event_number: int) -> bool:
        """An event could not be published. Its number is not used again: the next report replaces
        it. Returns whether it is the first failed event of its report."""
        for report in list(self._reports):
            if event_number in report.open:
                self._reports.remove(report)
                return True
        return False

    def publish_again(self) -> None:
        """The audit topic may have lost events that were acknowledged: the next report repeats
        everything that the books still hold."""
        self.delivered = min(self.delivered, self.dropped_through + 1)

    def too_large(self) -> None:
        """The cluster refuses events of this size: halve them, and the cells that are larger."""
        ranges, cells = self._per_event
        self._per_event = max(LEAST, ranges // 2), max(1, cells // 2)
        self.max_ranges = max(LEAST, min(self.max_ranges, self._per_event[0]))
        for cell in self.cells.values():
            if cell.weight > self.max_ranges:
                cell.lighten(self.max_ranges)
                self._changed(cell, cell.touched)

    @property
    def crowded(self) -> bool:
        """Whether there are so many cells that they should be reported and forgotten soon."""
        return len(self.cells) > self.max_cells // 2

    def at_rest(self, before_ms: int) -> list[TallyKey]:
        """The cells to drop: settled, unchanged since ``before_ms``, and in no later report."""
        return self._published_before(self._covers_from(), before_ms)

    def published_at_rest(self) -> list[TallyKey]:
        """All cells that are settled and known to be on the topic. Dropping them loses what an
        event held of them if that event is lost after it was acknowledged: for want of room only.
        """
        return self._published_before(self.delivered, FOREVER)

    def drop(self, key: TallyKey, carrier: int) -> None:
        """Forget one cell. More records of it make a new cell, with another part number."""
        self.cells.pop(key, None)
        self.dropped_through = max(self.dropped_through, carrier)

    def _published_before(self, event: int, before_ms: int) -> list[TallyKey]:
        return [
            key
            for key, cell in self.cells.items()
            if 0 <= cell.carrier < event and cell.touched < before_ms and cell.at_rest
        ]

    def _changed(self, cell: TallyCell, now_ms: int) -> None:
        cell.revision += 1
        cell.carrier = -1
        cell.touched = now_ms
        self.has_changed = True

    def _covers_from(self) -> int:
        oldest = min(self._firsts) if len(self._firsts) == REPEATS else 0
        return max(min(self.delivered, oldest), self.dropped_through + 1)

    def _portions(self, covers_from: int) -> list[list[tuple[TallyKey, CellReport]]]:
        portions: list[list[tuple[TallyKey, CellReport]]] = [[]]
        weight = 0
        most_ranges, most_cells = self._per_event
        for key, cell in self.cells.items():
            if 0 <= cell.carrier < covers_from:
                continue
            more = cell.weight + len(cell.blocks)
            heavy = weight + more > most_ranges
            if portions[-1] and (heavy or len(portions[-1]) >= most_cells):
                portions.append([])
                weight = 0
            portions[-1].append((key, cell.report(key)))
            weight += more
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
            complete_through=complete_through,
            closed=closed,
            acks=who.acks,
            backfill=who.backfill,
            cells=tuple(cells),
        )
