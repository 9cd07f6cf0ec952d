"""Where missing messages may still be, and what was found there. Pure.

The runs of the count show which offsets of which partition can hold a missing message. These
offsets are then read (:mod:`tallymark_spark_jobs.reconcile.evidence`): the result is never
calculated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.judge.verdicts import CellVerdict, Verdict
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.ranges import EMPTY, RangeSet

Run = Mapping[str, Any]
"""A row of :func:`tallymark_spark_jobs.reconcile.counts.cell_runs` with its ``cluster``."""


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
    """What to look for in one cluster, and in which offsets (first, last) of which partitions."""

    wanted: dict[Identity, RangeSet] = field(default_factory=dict[Identity, RangeSet])
    stretches: dict[TopicPartition, tuple[int, int]] = field(
        default_factory=dict[TopicPartition, tuple[int, int]]
    )

    def add(self, identity: Identity, sequences: RangeSet, run: Run) -> None:
        self.wanted[identity] = self.wanted.get(identity, EMPTY) | sequences
        first, last = run["first_offset"], run["last_offset"]
        for partition in range(run["first_partition"], run["last_partition"] + 1):
            low, high = self.stretches.get((identity.topic, partition), (first, last))
            self.stretches[identity.topic, partition] = (min(low, first), max(high, last))


def identity_of(cell: CellVerdict) -> Identity:
    return Identity(cell.key.topic, cell.key.partition, cell.key.instance)


def search_plan(
    verdicts: Iterable[Verdict], runs: Iterable[Run], edges: Sequence[Edge]
) -> dict[str, Search]:
    """By cluster, where to look: in every cluster but the one that lost them, upstream or not."""
    missing: dict[Identity, list[tuple[str, RangeSet]]] = {}
    downstream = {edge.name: edge.downstream for edge in edges}
    for verdict in verdicts:
        for cell in verdict.cells:
            if cell.missing:
                lost_by = downstream[verdict.edge]
                missing.setdefault(identity_of(cell), []).append((lost_by, cell.missing))
    plan: dict[str, Search] = {}
    for run in runs if missing else ():
        if run["first_sequence"] is None or run.get("aborted"):
            continue
        identity = Identity(run["topic"], run["origin_partition"], run["instance"])
        held = RangeSet.single(run["first_sequence"], run["last_sequence"])
        for lost_by, sequences in missing.get(identity, ()):
            if run["cluster"] != lost_by and (here := sequences & held):
                plan.setdefault(run["cluster"], Search()).add(identity, here, run)
    return plan


def exactly(search: Search) -> dict[str, str]:
    """The options that read these offsets and nothing else."""
    assign: dict[str, list[int]] = {}
    start: dict[str, dict[str, int]] = {}
    end: dict[str, dict[str, int]] = {}
    for (topic, partition), (first, last) in sorted(search.stretches.items()):
        assign.setdefault(topic, []).append(partition)
        start.setdefault(topic, {})[str(partition)] = first
        end.setdefault(topic, {})[str(partition)] = last + 1
    return {
        "assign": json.dumps(assign),
        "startingOffsets": json.dumps(start),
        "endingOffsets": json.dumps(end),
        "failOnDataLoss": "false",
    }


def located(cell: CellVerdict, found: Mapping[Identity, Sequence[LogSpan]]) -> list[LogSpan]:
    """The places of a cell's missing messages, cut to exactly these."""
    here: list[LogSpan] = []
    for place in found.get(identity_of(cell), ()):
        span = RangeSet.single(place.first_sequence, place.last_sequence)
        for first, last in span & cell.missing:
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
