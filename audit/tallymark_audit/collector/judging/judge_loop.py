"""Judge what ends at this cluster, or is consumed from it, as counts and claims come in.

A window is judged when something about it changed, and when time alone may have changed its
verdict: that time is kept for each window. Facts are read in one snapshot, and verdicts are written
in one fenced transaction, so that two collectors never overwrite each other.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import fine_monotonic_ms, thread_ms
from tallymark.deployment import AuditSettings
from tallymark.errors import TallymarkError
from tallymark_audit.collector.judging.hop_loop import UNJUDGED_KIND, HopLoop, OwedFrom
from tallymark_audit.collector.judging.watermark_writer import update_watermarks
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.judge.hops import hops_into
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import discovered_group
from tallymark_audit.model.turns import HURRY, SLICE_MS, Turns
from tallymark_audit.store.counted.groups import groups_on
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.judged.graph import History, history, note_edges
from tallymark_audit.store.judged.verdict_changes import Answers

log: Final = logging.getLogger(__name__)
FOUND_MS: Final = 2 * SLICE_MS
"""Processor time that a step gives to all undeclared groups together; in a hurry it gives less."""
MARK_MS: Final = 2_000
MARK_REST: Final = 500
"""While no verdict changes only time moves watermarks. They are then left alone so many times as
long as the last look took, but for half a window at most."""


class JudgeLoop:
    """Judges the edges of one cluster. FencedError from :meth:`step`: see Ledger.

    ``edges`` are all of the deployment; the groups whose members report are found on the way."""

    def __init__(
        self,
        ledger: Ledger,
        edges: Sequence[Edge],
        settings: AuditSettings,
        clock: Callable[[], float] = fine_monotonic_ms,
        meter: Callable[[], float] = thread_ms,
    ) -> None:
        """``clock`` (ms): by which topics rest that took more than their turn; ``meter`` (ms): what
        their work took."""
        self._ledger = ledger
        self._clock, self._meter = clock, meter
        self._settings = settings
        self._edges = tuple(edges)
        self._mark_at = 0
        self._groups_at = 0
        self._answers = Answers()
        self._hops: dict[str, HopLoop] = {}
        self._found: deque[str] = deque()
        """The names of the undeclared groups among them."""
        self._history: History | None = None
        self._noted: set[str] = set()

    def step(self, now: int, hurry: bool = False) -> list[Verdict]:
        """Judge what is due, as far as there is time; returns the verdicts that changed. ``hurry``:
        there is more to count, so steps are short: topics with little work are judged as often as
        before, and the others wait."""
        if self._history is None:
            with self._ledger.write(now) as connection:
                note_edges(connection, self._edges, now)
                self._history = history(connection)
            self._hold(self._edges, self._history.owed_from)
        marking = now >= self._mark_at
        if now >= self._groups_at:
            self._groups_at = now + MARK_MS
            self._find_groups()
        found = set(self._found)
        declared = [hop for name, hop in self._hops.items() if name not in found]
        news = [one for hop in declared for one in self._step(hop, now, hurry)]
        if news:
            self._mark_at = min(self._mark_at, now + MARK_MS)
        if marking:  # before the groups, which a reporter may invent
            self._mark(now, bool(news))
        waiting = sum(self._hops[name].waiting for name in self._found)
        return news + [
            one
            for hop in self._in_turn(hurry)
            for one in self._step(hop, now, hurry, waiting - hop.waiting)
        ]

    def _mark(self, now: int, news: bool) -> None:
        hops = [hop.hop for hop in self._hops.values()]
        began = time.monotonic()
        update_watermarks(self._ledger, hops, self._settings, now, self._answers)
        spent_ms = int((time.monotonic() - began) * 1000)
        rest = min(spent_ms * MARK_REST, self._settings.window_ms // 2)
        self._mark_at = now + (MARK_MS if news else max(MARK_MS, rest))

    def _in_turn(self, hurry: bool) -> Iterator[HopLoop]:
        """The undeclared groups, those that waited longest first, as many as there is time for: a
        reporter may invent any number of groups."""
        began = self._meter()
        for _ in range(len(self._found)):
            if self._meter() - began > FOUND_MS / (HURRY if hurry else 1):
                return
            self._found.rotate(-1)
            yield self._hops[self._found[-1]]

    def _step(self, hop: HopLoop, now: int, hurry: bool, beside: int = 0) -> list[Verdict]:
        try:
            return hop.step(self._ledger, now, hurry, beside)
        except (SQLAlchemyError, TallymarkError):
            raise
        except Exception as error:
            self._note(hop, error, now)
            return []

    def _note(self, hop: HopLoop, error: Exception, now: int) -> None:
        """An edge that cannot be looked at at all: the others are judged all the same."""
        why = f"{hop.hop.edge.name} cannot be looked at: {reason_of(error)}"
        if why not in self._noted:
            self._noted.add(why)
            log.error("%s", why, exc_info=error)
            with self._ledger.write(now) as connection:
                fold_incident(connection, self._ledger.cluster, Incident(UNJUDGED_KIND, why), now)

    def _hold(self, edges: Sequence[Edge], owed_from: OwedFrom, found: bool = False) -> None:
        """Judge these edges, where they are this cluster's and not judged already. ``found``:
        they are undeclared groups."""
        for hop in hops_into(edges, self._ledger.cluster):
            name = hop.edge.name
            known = self._hops.get(name)
            if known is None or known.hop.edge != hop.edge:
                turns = Turns[int](self._clock, self._meter, beside=found)
                self._hops[name] = HopLoop(hop, self._settings, owed_from, turns)
            if found and known is None:
                self._found.append(name)

    def _find_groups(self) -> None:
        """Judge the groups that report, each topic since the first report on it."""
        cluster = self._ledger.cluster
        with self._ledger.store.read() as connection:
            groups = groups_on(connection, cluster)
        declared = {edge.name for edge in self._edges}
        for group, since in groups.items():
            edge = discovered_group(cluster, group, since)
            if edge.name not in declared:
                self._hold([edge], partial(_first_heard, since), found=True)


def _first_heard(since: Mapping[str, int], _: Edge, topic: str) -> int:
    return since.get(topic, 0)
