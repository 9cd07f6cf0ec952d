"""The result of a run: the rows of its table, the named losses, the exit code. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.judge.verdicts import (
    GOOD,
    SEVERITY,
    UNDECIDED,
    CellVerdict,
    State,
    Verdict,
    worst,
)
from tallymark_audit.model.cells import Edge, EdgeWindow
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.schema.rows import cell_to_json
from tallymark_spark_jobs.reconcile.reading.read_plan import Unread
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.search import Identity, LogSpan, located


class Exit(IntEnum):
    """What the command returns; 1 is an error, 2 wrong usage."""

    COMPLETE = 0
    DISCREPANCIES = 3
    UNDECIDED = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the verdict table: a topic on an edge. Counts are messages."""

    edge: str
    topic: str
    windows: int
    claimed: int
    observed: int
    missing: int
    duplicated: int
    unclaimed: int
    explained: int
    state: State
    states: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run. ``as_of`` (ms): when its first look began; ``looked``: when a later one did,
    of the windows that had not settled then. ``deferred``: windows whose data has expired, with the
    collector's state (UNKNOWN where it has none). ``disagreements``: rows of the store where the
    collector, which counts independently, has another result. ``damaged``: partitions that cannot
    be read to their end. ``edges``: all that were judged. ``seconds``: how long each step took.
    ``unread``: offsets behind the period that were not read. ``notes``: what else is to be told."""

    period: Period
    as_of: int
    verdicts: tuple[Verdict, ...]
    places: Mapping[Identity, Sequence[LogSpan]]
    deferred: Mapping[EdgeWindow, State]
    idle: bool
    damaged_events: int = 0
    damaged: tuple[Damaged, ...] = ()
    disagreements: tuple[Mapping[str, Any], ...] = ()
    edges: tuple[Edge, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    looked: Mapping[EdgeWindow, int] = field(default_factory=dict[EdgeWindow, int])
    unread: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()

    def looked_at(self, verdict: Verdict) -> int:
        """As of when (ms) the verdict holds."""
        return self.looked.get((verdict.edge, verdict.topic, verdict.window), self.as_of)

    @property
    def state(self) -> Exit:
        """The exit code. A period without windows is complete only if every reporter confirms that
        there was nothing (``idle``)."""
        states = {verdict.state for verdict in self.verdicts} | set(self.deferred.values())
        if states - GOOD - UNDECIDED:
            return Exit.DISCREPANCIES
        unread = any(one.since < self.period.end for one in self.damaged)
        if states & UNDECIDED or unread or not (states or self.idle):
            return Exit.UNDECIDED
        return Exit.COMPLETE

    @property
    def settling(self) -> bool:
        """Whether waiting alone may decide something."""
        states = {verdict.state for verdict in self.verdicts}
        return bool(states & {State.OPEN, State.SETTLING})


def lines(verdicts: Iterable[Verdict]) -> list[Line]:
    """The verdicts summed by edge and topic, in the order they come in."""
    grouped: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        grouped.setdefault((verdict.edge, verdict.topic), []).append(verdict)
    return [
        Line(
            edge=edge,
            topic=topic,
            windows=len(some),
            claimed=sum(one.claimed for one in some),
            observed=sum(one.observed for one in some),
            missing=sum(one.missing for one in some),
            duplicated=sum(one.duplicates for one in some),
            unclaimed=sum(one.unclaimed for one in some),
            explained=sum(one.explained for one in some),
            state=worst(one.state for one in some),
            states=dict(Counter(str(one.state) for one in some)),
        )
        for (edge, topic), some in grouped.items()
    ]


def findings(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, CellVerdict]]:
    """The cells with something wrong, worst first."""
    found = [
        (verdict, cell)
        for verdict in verdicts
        for cell in verdict.cells
        if cell.state not in GOOD and cell.state not in UNDECIDED
    ]
    found.sort(key=lambda pair: (-SEVERITY[pair[1].state], pair[0].edge, pair[1].key))
    return found


def idle_through(books: Mapping[str, ClaimBook], end: int, as_of: int) -> bool:
    """Whether the reporters confirm that there was nothing: there is at least one, and each has
    published all its claims up to ``end`` (ms), or began after it."""
    facts = [
        reporter.facts()
        for book in books.values()
        for reporter in book.reporters.values()
        if reporter.tier == "producer"  # a mirror only copies what others have
    ]
    return (
        bool(facts)
        and end <= as_of
        and not any(one.lacks(end) and one.first_seen < end for one in facts)
    )


def to_json(outcome: Outcome) -> dict[str, Any]:
    """The whole result for programs. Times are ms UTC; lists of sequences are flat ranges:
    first, last, first, last. Windows that are simply complete are only in the sums."""
    return {
        "outcome": outcome.state.name.lower(),
        "exit": int(outcome.state),
        "from": outcome.period.start,
        "to": outcome.period.end,
        "as_of": outcome.as_of,
        "edges": [_line_json(line) for line in lines(outcome.verdicts)],
        "verdicts": [
            _verdict_json(verdict, outcome)
            for verdict in outcome.verdicts
            if verdict.state is not State.COMPLETE
        ],
        "deferred": [
            {"edge": edge, "topic": topic, "window": window, "state": str(state)}
            for (edge, topic, window), state in outcome.deferred.items()
        ],
        "disagreements": [dict(row) for row in outcome.disagreements],
        "unread": [one._asdict() for one in outcome.unread],
        "notes": list(outcome.notes),
        "damaged_events": outcome.damaged_events,
        "damaged": [{**one._asdict(), "reason": one.reason} for one in outcome.damaged],
        "seconds": {name: round(taken, 2) for name, taken in outcome.seconds.items()},
    }


def _line_json(line: Line) -> dict[str, Any]:
    fields = {name: getattr(line, name) for name in Line.__slots__}
    return {**fields, "state": str(line.state)}


def _verdict_json(verdict: Verdict, outcome: Outcome) -> dict[str, Any]:
    return {
        "edge": verdict.edge,
        "topic": verdict.topic,
        "window": verdict.window,
        "window_utc": utc(verdict.window),
        "as_of": outcome.looked_at(verdict),
        "state": str(verdict.state),
        "claimed": verdict.claimed,
        "observed": verdict.observed,
        "missing": verdict.missing,
        "duplicates": verdict.duplicates,
        "unclaimed": verdict.unclaimed,
        "explained": verdict.explained,
        "reasons": list(verdict.reasons),
        "cells": [cell_json(cell, outcome.places) for cell in verdict.cells],
    }


def cell_json(cell: CellVerdict, places: Mapping[Identity, Sequence[LogSpan]]) -> dict[str, Any]:
    """A cell as the store keeps it, with where its missing messages lie."""
    return {
        **cell_to_json(cell),
        "located": [place._asdict() for place in located(cell, places)],
    }
