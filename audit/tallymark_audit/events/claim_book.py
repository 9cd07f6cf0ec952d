"""From a stream of monitoring events to claims and reporters. Pure: the collector, which keeps the
result in the store, and Spark, which reads the topic at once, share it, so they agree.

Events may be lost, repeated or reordered. Cells heal by themselves: they are cumulative and the
highest revision of a (reporter, cell, part) counts. What must not be believed too early is
``complete_through``: it holds only once every earlier event has arrived or been made up for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tallymark_audit.events.events import AuditEvent, Gap
from tallymark_audit.judge.verdicts import ReporterFacts
from tallymark_audit.model.cells import LAKE, CellKey
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Claim, merge_claims

MIRROR = "mirror"
"""The kind of reporters that may be several processes at a time."""
AHEAD = 64
"""How many events beyond a hole are remembered; further ones are healed by what they repeat."""
HOLES = 256
"""Holes in a reporter's numbers that are remembered, the last ones: an event from before that comes
again is taken for new, which changes nothing."""


class Ahead(NamedTuple):
    """What is kept of an event that arrived beyond a hole in its reporter's numbers."""

    number: int
    covers_from: int
    group: int
    complete_through: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Reporter:
    """A reporter as its events describe it. ``covered``: all events up to this number have arrived,
    or later ones have replaced them; ``complete_through`` and ``closed`` are that event's. ``seen``
    are the numbers that arrived, ``ahead`` the events beyond a hole."""

    reporter: str
    kind: str = "producer"
    tier: str = "producer"
    server: str = ""
    application: str = ""
    instance: str = ""
    consumer_group: str = ""
    acks: int = -1
    backfill: bool = False
    first_seen: int = 0
    last_heard: int = 0
    covered: int = -1
    complete_through: int = 0
    closed: bool = False
    seen: RangeSet = EMPTY
    ahead: tuple[Ahead, ...] = ()

    def heard(self, event: AuditEvent) -> Reporter:
        """The reporter after one more event, which may have arrived before."""
        if event.event_number in self.seen and not self._forgot(event.event_number):
            return self
        mark = Ahead(
            event.event_number,
            event.covers_from,
            event.group,
            event.complete_through,
            event.closed,
        )
        later = replace(
            self,
            first_seen=min(self.first_seen, event.started_at),
            last_heard=max(self.last_heard, event.emitted_at),
            seen=_last(self.seen.add(event.event_number, event.event_number)),
            ahead=tuple(sorted((*self.ahead, mark)))[-AHEAD:],
        )._advance()
        if event.kind == MIRROR and self._is_another_process(event):
            through, closed = event.complete_through, event.closed
            return replace(later, complete_through=through, closed=closed)
        return later

    def _forgot(self, number: int) -> bool:
        """Whether an event beyond a hole arrived and was not remembered, for want of room."""
        return number > self.covered and all(mark.number != number for mark in self.ahead)

    def _is_another_process(self, event: AuditEvent) -> bool:
        """Whether the newest event has a number below what is covered. All processes of a mirror
        report under one name, each with numbers from its own start on. So the numbers of processes
        that started earlier are below those of the last one, even after that one has ended."""
        return event.event_number <= self.covered and event.emitted_at > self.last_heard

    def _advance(self) -> Reporter:
        """Move past every event that continues what is covered."""
        covered, through, closed = self.covered, self.complete_through, self.closed
        waiting = list(self.ahead)
        moved = True
        while moved:
            moved = False
            for mark in waiting:
                if mark.number > covered and self._stands(mark, covered):
                    covered, through, closed = mark.number, mark.complete_through, mark.closed
                    moved = True
        ahead = tuple(mark for mark in waiting if mark.number > covered)
        return replace(self, covered=covered, complete_through=through, closed=closed, ahead=ahead)

    def _stands(self, mark: Ahead, covered: int) -> bool:
        first_of_group = mark.number - mark.group + 1
        whole = self.seen.covers(first_of_group, mark.number)
        return whole and mark.covers_from <= covered + 1

    def facts(self, retired: bool = False) -> ReporterFacts:
        """What the verdict function asks of a reporter."""
        return ReporterFacts(
            reporter=self.reporter,
            instance=self.instance,
            server=self.server,
            first_seen=self.first_seen,
            last_heard=self.last_heard,
            complete_through=self.complete_through,
            closed=self.closed,
            retired=retired,
            backfill=self.backfill,
            lost=self._lost(),
        )

    def _lost(self) -> RangeSet:
        """The numbers that later events have neither followed nor replaced."""
        if not self.ahead:
            return EMPTY
        return RangeSet.single(self.covered + 1, self.ahead[-1].number) - self.seen


def introduce(event: AuditEvent, trimmed: bool = False) -> Reporter:
    """The reporter of an event, before the event itself is added. ``trimmed``: the audit topic's
    beginning has expired, so events with lower numbers will not come."""
    return Reporter(
        reporter=event.reporter,
        kind=event.kind,
        tier=event.tier,
        server=event.server,
        application=event.application,
        instance=event.instance,
        consumer_group=event.consumer_group,
        acks=event.acks,
        backfill=event.backfill,
        first_seen=event.started_at,
        covered=event.covers_from - 1 if trimmed else -1,
        seen=_before(event) if trimmed else EMPTY,
    )


def _before(event: AuditEvent) -> RangeSet:
    """The numbers of its own group that a trimmed topic no longer holds."""
    number = event.event_number
    return RangeSet.single(0, number - 1) if number else EMPTY


def _last(seen: RangeSet) -> RangeSet:
    return seen if len(seen.ranges) <= HOLES else RangeSet(seen.ranges[-HOLES:])


class PartKey(NamedTuple):
    """A reporter, a cell and an incarnation of the cell: the unit of revisions."""

    reporter: str
    key: CellKey
    part: int


class Said(NamedTuple):
    """How far a reporter has come with a partition, as it reported at ``at`` (ms)."""

    at: int
    offset: int
    topic_id: str = ""


def replaces(kind: str, known: Said, said: Said) -> bool:
    """Whether a report replaces the one that is known, of a reporter of that kind. The newest one
    counts, which need not be the furthest: a log that was cut, or made again, is copied again. A
    table of the lake never goes back in one log, and its reports may be sent again at any time: of
    one log the furthest counts."""
    if kind == LAKE and known.topic_id == said.topic_id:
        return said.offset > known.offset
    return said.at >= known.at and said[1:] != known[1:]


class CarriedKey(NamedTuple):
    """A reporter and a partition in which it reports how far it has come."""

    reporter: str
    topic: str
    partition: int


@dataclass(slots=True)
class ClaimBook:
    """All claims and reporters of one cluster, in memory. ``trimmed``: the audit topic's log no
    longer starts at offset 0, see :func:`introduce`."""

    trimmed: bool = False
    reporters: dict[str, Reporter] = field(default_factory=dict[str, Reporter])
    parts: dict[PartKey, tuple[int, Claim]] = field(
        default_factory=dict[PartKey, tuple[int, Claim]]
    )
    copied: dict[CarriedKey, tuple[int, int]] = field(
        default_factory=dict[CarriedKey, tuple[int, int]]
    )
    """The time (ms) and the offset of the newest report (:func:`replaces`) on a partition.
    Such a report is taken only after all reports of the work before it."""
    topic_ids: dict[CarriedKey, str] = field(default_factory=dict[CarriedKey, str])
    """Of which topic these offsets are, where the reporter says so."""
    gaps: dict[tuple[str, Gap], None] = field(default_factory=dict[tuple[str, Gap], None])
    """By mirror, what it could not copy."""

    def add(self, event: AuditEvent) -> None:
        """Take in one event; repeated and reordered ones change nothing."""
        known = self.reporters.get(event.reporter) or introduce(event, self.trimmed)
        reporter = self.reporters[event.reporter] = known.heard(event)
        for part, revision, claim in parts_of(event):
            old = self.parts.get(part)
            if old is None or revision > old[0]:
                self.parts[part] = (revision, claim)
        for one in event.copied if event.event_number <= reporter.covered else ():
            place = CarriedKey(event.reporter, one.topic, one.partition)
            before = Said(*self.copied.get(place, (0, -1)), self.topic_ids.get(place, ""))
            word = Said(event.emitted_at, one.through_offset, one.topic_id)
            if place not in self.copied or replaces(event.kind, before, word):
                self.copied[place] = word.at, word.offset
                self.topic_ids[place] = word.topic_id
        self.gaps.update(((event.reporter, gap), None) for gap in event.gaps)

    def claims(self) -> dict[CellKey, Claim]:
        """One claim a cell: the union over parts and producers."""
        return merge_claims(
            claim
            for part, (_, claim) in self.parts.items()
            if self.reporters[part.reporter].tier == "producer"
        )

    def processed(self, group: str) -> list[Claim]:
        """What the runs of a consumer group report as processed: one claim a run and cell."""
        return [
            claim
            for part, (_, claim) in self.parts.items()
            if self.reporters[part.reporter].tier == "consumer"
            and self.reporters[part.reporter].consumer_group == group
        ]

    def loaded(self, tables: Container[str]) -> list[Claim]:
        """What these tables of the lake report as loaded: one claim a commit and cell."""
        return [claim for part, (_, claim) in self.parts.items() if part.reporter in tables]

    def topics(self) -> dict[str, set[str]]:
        """Which reporters publish to a topic."""
        topics: dict[str, set[str]] = {}
        for part in self.parts:
            topics.setdefault(part.key.topic, set()).add(part.reporter)
        return topics


def parts_of(event: AuditEvent) -> Iterator[tuple[PartKey, int, Claim]]:
    """The claims of an event with what they revise."""
    for cell in event.cells:
        claim = event.claim(cell)
        yield PartKey(event.reporter, claim.key, cell.part), cell.revision, claim


def fold(events: Iterable[AuditEvent], trimmed: bool = False) -> ClaimBook:
    """The claims and reporters of a whole audit topic."""
    book = ClaimBook(trimmed)
    for event in events:
        book.add(event)
    return book
