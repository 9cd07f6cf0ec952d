"""Where missing messages may still be, and what was found there. Pure.

The count shows which offsets of which partition can hold a missing message. These offsets are then
read (:mod:`tallymark_spark_jobs.reconcile.reading.evidence`): the result is never calculated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tallymark_audit.judge.verdicts import CellVerdict, Verdict
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.ranges import EMPTY, GrowingRanges, RangeSet
from tallymark_spark_jobs.reconcile.shapes.resolve import CellAt, Stretch, joined, stretches_of
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen


class LogSpan(NamedTuple):
    """Messages of one identity at consecutive offsets of a log."""

    cluster: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    first_sequence: int
    last_sequence: int


class Identity(NamedTuple):
    """Whose messages: with a sequence, one message."""

    topic: str
    partition: int
    instance: str


@dataclass(slots=True)
class Search:
    """What to look for in one cluster, and in which stretches of its logs."""

    wanted: dict[Identity, RangeSet] = field(default_factory=dict[Identity, RangeSet])
    stretches: list[Stretch] = field(default_factory=list[Stretch])

    def add(self, identity: Identity, sequences: RangeSet, where: Iterable[Stretch]) -> None:
        """Look for these sequences in these stretches, too."""
        self.wanted[identity] = self.wanted.get(identity, EMPTY) | sequences
        self.stretches = joined([*self.stretches, *where])


def identity_of(cell: CellVerdict) -> Identity:
    return Identity(cell.key.topic, cell.key.partition, cell.key.instance)


def search_plan(
    verdicts: Iterable[Verdict], seen: Iterable[Seen], edges: Sequence[Edge]
) -> dict[str, Search]:
    """By cluster, where to look: in every cluster but the one that lost them, upstream or not."""
    missing: dict[Identity, list[tuple[str, RangeSet]]] = {}
    downstream = {edge.name: edge.downstream for edge in edges}
    for verdict in verdicts:
        for cell in verdict.cells:
            if cell.missing:
                lost_by = downstream[verdict.edge]
                missing.setdefault(identity_of(cell), []).append((lost_by, cell.missing))
    if not missing:
        return {}
    wanted = [
        one
        for one in seen
        if one.tally.key.stamped and not one.tally.aborted and _identity(one) in missing
    ]
    whole: dict[CellAt, RangeSet] = {}
    for cluster, tally, _ in wanted:
        place = cluster, tally.key
        whole[place] = whole.get(place, EMPTY) | RangeSet(tally.ranges)
    plan: dict[str, Search] = {}
    for one in wanted:
        cluster, tally, named = one
        held = RangeSet(tally.ranges) if named else whole[cluster, tally.key]
        for lost_by, sequences in missing[_identity(one)]:
            if cluster != lost_by and (here := sequences & held):
                plan.setdefault(cluster, Search()).add(_identity(one), here, stretches_of([one]))
    return plan


def together(plans: Iterable[Mapping[str, Search]]) -> dict[str, Search]:
    """All that is looked for, by cluster."""
    found: dict[str, Search] = {}
    for plan in plans:
        for cluster, search in plan.items():
            mine = found.setdefault(cluster, Search())
            for identity, sequences in search.wanted.items():
                mine.wanted[identity] = mine.wanted.get(identity, EMPTY) | sequences
            mine.stretches += search.stretches
    for search in found.values():
        search.stretches = joined(search.stretches)
    return found


def _identity(one: Seen) -> Identity:
    key = one.tally.key
    return Identity(key.topic, key.partition, key.instance)


def located(cell: CellVerdict, found: Mapping[Identity, Sequence[LogSpan]]) -> list[LogSpan]:
    """The places of a cell's missing messages, cut to exactly these."""
    here: list[LogSpan] = []
    missing = GrowingRanges(cell.missing)
    for place in found.get(identity_of(cell), ()):
        for first, last in missing.among(place.first_sequence, place.last_sequence):
            shift = place.first_offset - place.first_sequence
            here.append(
                place._replace(
                    first_offset=first + shift,
                    last_offset=last + shift,
                    first_sequence=first,
                    last_sequence=last,
                )
            )
    return here
