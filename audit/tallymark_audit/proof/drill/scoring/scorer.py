"""Scores of what happened beside the main traffic: reads what :mod:`.side_scores` holds against
each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote
from tallymark_audit.proof.drill.findings.found import read_incidents
from tallymark_audit.proof.drill.running.stage import Stage
from tallymark_audit.proof.drill.scoring.compare import Comparison
from tallymark_audit.proof.drill.scoring.report import hits_of
from tallymark_audit.proof.drill.scoring.side_scores import (
    SideScore,
    score_elections,
    score_events,
    score_items,
    score_unreadable,
    unexplained,
)
from tallymark_audit.proof.drill.truth.books_and_logs import read_marked
from tallymark_audit.proof.drill.truth.expected import Expectation
from tallymark_audit.proof.drill.truth.whole_truth import Gone


class Scorer:
    """``rows``: the verdicts; ``notes``: what was done; ``gone``: what is gone; ``unheld``: lost
    journals that held nothing."""

    def __init__(
        self,
        stage: Stage,
        rows: Sequence[dict[str, Any]],
        notes: Sequence[FaultNote],
        gone: Gone,
        unheld: Sequence[str],
    ) -> None:
        self._stage = stage
        self._rows = rows
        self._notes = notes
        self._gone = gone
        self._unheld = unheld
        self._hits = hits_of(notes)

    def score(self, kind: str, expectation: Expectation, comparison: Comparison) -> SideScore:
        """The line of one kind."""
        done = self._hits.get(kind, 0)
        if kind == kinds.FLIP_EVENTS:
            return score_events(done, self._marked(), read_incidents(self._stage.store))
        if kind == kinds.BROKEN_CRC:
            incidents = read_incidents(self._stage.store)
            return score_unreadable(self._gone.unreadable, self._rows, incidents)
        if kind == kinds.LOST_CONSUMER:
            return SideScore(kind, done, done, max(0, done - len(self._unheld)), 0)
        shown = score_items(kind, done, expectation, comparison)
        if kind == kinds.UNCLEAN_ELECTION:
            return score_elections(shown, self._gone.elections, read_incidents(self._stage.store))
        return shown

    def unexplained(self) -> list[str]:
        """What brokers report of lost records, without an election of the drill."""
        return unexplained(self._gone.elections, read_incidents(self._stage.store))

    def _marked(self) -> dict[str, int]:
        """The number of events with turned bits in each cluster's audit topic."""
        marks = set(_marks_of(self._notes))
        topology = self._stage.topology
        return {
            cluster.name: read_marked(topology.straight(cluster.name), AUDIT_TOPIC, marks)
            for cluster in topology.deployment.clusters
        }


def _marks_of(notes: Iterable[FaultNote]) -> Iterable[int]:
    for note in notes:
        if note.kind == kinds.FLIP_EVENTS:
            for first, last in note.sequences:
                yield from range(first, last + 1)
