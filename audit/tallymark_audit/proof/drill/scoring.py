"""Scores of what happened beside the main traffic: reads what :mod:`.beside` holds against each
other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.proof.drill import faults
from tallymark_audit.proof.drill.beside import (
    SideScore,
    score_events,
    score_items,
    score_unreadable,
)
from tallymark_audit.proof.drill.compare import Comparison
from tallymark_audit.proof.drill.expected import Expectation
from tallymark_audit.proof.drill.found import read_incidents
from tallymark_audit.proof.drill.report import hits_of
from tallymark_audit.proof.drill.seal import Note
from tallymark_audit.proof.drill.stage import Stage
from tallymark_audit.proof.drill.truth import Unreadable, read_marked


class Scorer:
    """``rows``: the verdicts; ``notes``: what was done; ``unheld``: lost journals that held
    nothing."""

    def __init__(
        self,
        stage: Stage,
        rows: Sequence[dict[str, Any]],
        notes: Sequence[Note],
        unreadable: Sequence[Unreadable],
        unheld: Sequence[str],
    ) -> None:
        self._stage = stage
        self._rows = rows
        self._notes = notes
        self._unreadable = unreadable
        self._unheld = unheld
        self._hits = hits_of(notes)

    def score(self, kind: str, expectation: Expectation, comparison: Comparison) -> SideScore:
        """The line of one kind."""
        done = self._hits.get(kind, 0)
        if kind == faults.FLIP_EVENTS:
            return score_events(done, self._marked(), read_incidents(self._stage.store))
        if kind == faults.BROKEN_CRC:
            incidents = read_incidents(self._stage.store)
            return score_unreadable(self._unreadable, self._rows, incidents)
        if kind == faults.LOST_CONSUMER:
            return SideScore(kind, done, done, max(0, done - len(self._unheld)), 0)
        return score_items(kind, done, expectation, comparison)

    def _marked(self) -> dict[str, int]:
        """How many events with turned bits stand in each cluster's audit topic."""
        marks = set(_marks_of(self._notes))
        topology = self._stage.topology
        return {
            cluster.name: read_marked(topology.straight(cluster.name), AUDIT_TOPIC, marks)
            for cluster in topology.deployment.clusters
        }


def _marks_of(notes: Iterable[Note]) -> Iterable[int]:
    for note in notes:
        if note.kind == faults.FLIP_EVENTS:
            for first, last in note.sequences:
                yield from range(first, last + 1)
