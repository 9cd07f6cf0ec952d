"""Read for Prometheus, for the dashboards (of everything) and for each collector (of the edges it
judges), at most every :data:`FRESH_MS`.

Where the store is away ``tallymark_audit_up`` is 0 and all that would be read from it is left out,
so that nothing stale looks well.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from prometheus_client import Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import Deployment
from tallymark.errors import TallymarkError
from tallymark_audit.alerts.facts import judged_edges
from tallymark_audit.collector.judging.window_facts import settle_ms
from tallymark_audit.judge.hops import Hop
from tallymark_audit.metrics.metrics import Reading, families, state_families
from tallymark_audit.model.cells import Edge, EdgeTopic
from tallymark_audit.store import Store
from tallymark_audit.store.counted.damage import damaged
from tallymark_audit.store.counted.openings import overflowed
from tallymark_audit.store.reading.alarms import watching
from tallymark_audit.store.reading.alarms.watching import StateTally
from tallymark_audit.store.schema.rows import Row

log: Final = logging.getLogger(__name__)
FRESH_MS: Final = 10_000
SETTLE_MS: Final = 60_000
"""Settle times are learned of days: reading them again so often is enough."""
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LIVELY_MS: Final = HOUR_MS
"""Windows this old still change; of older ones one hour is read again at a time."""


class AuditMetrics(Collector):
    """The audit's families, of the edges into ``clusters`` (all of the deployment by default).
    ``own`` adds what the process itself has counted. Threads may share it."""

    def __init__(
        self,
        store: Store,
        deployment: Deployment,
        clock: Callable[[], int],
        clusters: Sequence[str] | None = None,
        own: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        self._store = store
        self._deployment = deployment
        self._clock = clock
        self._clusters = clusters or [one.name for one in deployment.clusters]
        self._own = own
        self._lock = threading.Lock()
        self._read_at: int | None = None
        self._reading: Reading | None = None
        self._hours = Hours()
        self._settle: dict[EdgeTopic, int] = {}
        self._settle_at: int | None = None

    def collect(self) -> Iterator[Metric]:
        """All families, for the registry."""
        with self._lock:
            reading = self._fresh()
        yield from state_families(reading is not None)
        if reading is not None:
            yield from families(reading)
        yield from self._own()

    def _fresh(self) -> Reading | None:
        now = self._clock()
        if self._read_at is None or now - self._read_at >= FRESH_MS:
            try:
                with self._store.read() as connection:
                    self._reading = self._read(connection, now)
            except (SQLAlchemyError, TallymarkError) as error:
                if self._reading is not None or self._read_at is None:
                    log.warning("the metrics cannot be read from the audit store: %s", error)
                self._reading = None
            self._read_at = now
        return self._reading

    def _read(self, connection: Connection, now: int) -> Reading:
        edges = [
            edge
            for cluster in self._clusters
            for edge in judged_edges(connection, self._deployment, cluster)
        ]
        names = [edge.name for edge in edges]
        today = now - now % DAY_MS
        marks = watching.marks(connection, names)
        self._learn(connection, edges, marks, now)
        self._hours.read(connection, names, now)
        silence = self._deployment.audit.silence_ms
        counters = [*self._clusters, *(one.name for one in edges if one.kind == "consumer")]
        return Reading(
            edges=edges,
            tallies=self._hours.since(now - DAY_MS),
            today=self._hours.since(today),
            missing=watching.wrong_windows(connection, names, "missing", 0),
            excess=watching.wrong_windows(connection, names, "duplicates", 0),
            unclaimed=watching.unclaimed_windows(connection, names),
            marks=marks,
            settle_ms=dict(self._settle),
            latency=watching.latency(connection, counters, today),
            alerts=watching.alert_counts(connection),
            heartbeats=watching.heartbeats(connection),
            silent={
                cluster: len(watching.silent_reporters(connection, cluster, silence))
                for cluster in self._clusters
            },
            jobs=watching.jobs(connection),
            damaged=[
                one
                for name in self._clusters
                for one in damaged(connection, name, found_since=now - DAY_MS)
            ],
            overflowed=[one for one in overflowed(connection) if one.cluster in self._clusters],
        )

    def _learn(
        self, connection: Connection, edges: Sequence[Edge], marks: Sequence[Row], now: int
    ) -> None:
        if self._settle_at is not None and now - self._settle_at < SETTLE_MS:
            return
        by_name = {edge.name: edge for edge in edges}
        audit = self._deployment.audit
        self._settle_at = now
        self._settle = {
            (row["edge"], row["topic"]): settle_ms(
                connection, Hop(by_name[row["edge"]], ()), row["topic"], audit, now
            )
            for row in marks
        }


@dataclass(slots=True)
class Hours:
    """The windows of the last 24 hours summed up by hour. At the first reading all of them are
    read, then what may still change, and of the others one hour at a time: a day of windows may be
    a million rows."""

    _known: dict[int, list[StateTally]] = field(default_factory=dict[int, list[StateTally]])
    _edges: frozenset[str] = frozenset()
    _turn: int = 0

    def read(self, connection: Connection, edges: Collection[str], now: int) -> None:
        """Bring them up to date, as of ``now`` (ms)."""
        first, last = _hour(now - DAY_MS), _hour(now)
        lively = _hour(now - LIVELY_MS)
        if self._edges != frozenset(edges) or not self._known:
            self._known, self._edges = {}, frozenset(edges)
            self._take(connection, first, last + HOUR_MS)
            return
        self._take(connection, lively, last + HOUR_MS)
        old = range(first, lively, HOUR_MS)
        self._turn = (self._turn + 1) % len(old)
        self._take(connection, old[self._turn], old[self._turn] + HOUR_MS)
        self._known = {at: some for at, some in self._known.items() if at >= first}

    def since(self, start: int) -> list[StateTally]:
        """All from the hour of ``start`` (ms) on, one an edge, topic and state."""
        whole: dict[tuple[str, str, str], StateTally] = {}
        for at, some in self._known.items():
            if at < _hour(start):
                continue
            for one in some:
                key = one.edge, one.topic, one.state
                known = whole.get(key)
                whole[key] = one if known is None else _both(known, one)
        return [whole[key] for key in sorted(whole)]

    def _take(self, connection: Connection, start: int, end: int) -> None:
        found = watching.tallies(connection, self._edges, start, end, HOUR_MS)
        for at in range(start, end, HOUR_MS):
            self._known[at] = found.get(at, [])


def _hour(at: int) -> int:
    return at - at % HOUR_MS


def _both(one: StateTally, other: StateTally) -> StateTally:
    shares = [each.share for each in (one, other) if each.share is not None]
    return replace(
        one,
        windows=one.windows + other.windows,
        claimed=one.claimed + other.claimed,
        observed=one.observed + other.observed,
        share=min(shares, default=None),
    )
