"""Takes monitoring events in as far as the budget of their partition goes (:mod:`.report_prices`),
in the transaction that does so."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.limits.openings import Budget
from tallymark_audit.collector.limits.report_prices import (
    CLUSTER,
    TOO_MANY_REPORTS,
    Heard,
    Spoken,
    cell_of,
    price_of,
    spoken_of,
)
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import RunName
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store.counted import openings
from tallymark_audit.store.counted.incidents import Incident, fold_incident

REMEMBERED: Final = 65_536
T = TypeVar("T")


@dataclass(slots=True)
class Recent(Generic[T]):
    """The last so many of what was noted."""

    _known: OrderedDict[T, None] = field(default_factory=OrderedDict[T, None])

    def of(self, some: Iterable[T]) -> set[T]:
        """Those of them that are known."""
        return {one for one in some if one in self._known}

    def note(self, some: Iterable[T]) -> None:
        """Know these; the oldest ones are forgotten."""
        for one in some:
            self._known[one] = None
            self._known.move_to_end(one)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


@dataclass(slots=True)
class ReportBound:
    """The recent reports of one cluster."""

    _reporters: Recent[str] = field(default_factory=Recent[str])
    _reported: Recent[RunName] = field(default_factory=Recent[RunName])
    _spoken: Recent[Spoken] = field(default_factory=Recent[Spoken])
    _parts: OrderedDict[int, int] = field(default_factory=OrderedDict[int, int])
    """Of the cells that were claimed last, which part."""

    def admit(
        self,
        connection: Connection,
        cluster: str,
        partition: int,
        events: Sequence[AuditEvent],
        budget: Budget,
        now: int,
    ) -> list[AuditEvent]:
        """The events that are accepted; the others are reported in an incident. ``budget`` is that
        of a partition of data."""
        if not events or not budget.most:
            return list(events)
        budget = replace(budget, most=CLUSTER * budget.most)
        place: TopicPartition = (AUDIT_TOPIC, partition)
        spent = openings.spent_of(connection, cluster, *place)
        left = start = budget.left(spent, now)
        reporters, reported = self._look(connection, cluster, events)
        taken: list[AuditEvent] = []
        spoken: set[Spoken] = set()
        for event in events:
            told = spoken_of(event)
            spoke = self._spoken.of(told) | spoken
            known = Heard(event.reporter in reporters, reported, spoke, self._parts)
            price = price_of(event, known, budget, now)
            if price > left:
                continue
            left -= price
            taken.append(event)
            reporters.add(event.reporter)
            reported.add((event.server, event.instance))
            spoken |= told
            self._note_parts(event)
        later = budget.spend(spent, start - left, now)
        refused = len(events) - len(taken)
        if refused:
            later = replace(later, records=later.records + refused, refused_at=now)
            reason = (
                "more new reporters, or claims of other times, than are taken in at once: these "
                "reports were left out as if they had been lost"
            )
            incident = Incident(TOO_MANY_REPORTS, reason, *place, count=refused)
            fold_incident(connection, cluster, incident, now)
        if later != budget.at(spent, now):
            openings.save_spent(connection, cluster, *place, later)
        self._reporters.note(event.reporter for event in taken)
        self._spoken.note(spoken)
        return taken

    def _look(
        self, connection: Connection, cluster: str, events: Iterable[AuditEvent]
    ) -> tuple[set[str], set[RunName]]:
        """The reporters of the events that are known, and the runs they name that have reported."""
        names = {event.reporter for event in events}
        known = self._reporters.of(names)
        known |= openings.known_reporters(connection, cluster, names - known)
        runs = {(c.server, c.instance) for event in events for c in event.cells if c.instance}
        reported = self._reported.of(runs)
        found = openings.reported_runs(connection, runs - reported)
        self._reported.note(found)
        return known, reported | found

    def _note_parts(self, event: AuditEvent) -> None:
        for cell in event.cells:
            mine = cell_of(event, cell)
            self._parts[mine] = cell.part
            self._parts.move_to_end(mine)
        while len(self._parts) > REMEMBERED:
            self._parts.popitem(last=False)
