"""Read from the store what the rules ask for, for the edges that end at one cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection

from tallymark.deployment import AuditSettings, Deployment
from tallymark_audit.alerts.rules import Facts, Mark
from tallymark_audit.collector.judging.horizons import Horizons
from tallymark_audit.judge.hops import Hop
from tallymark_audit.judge.states import UNDECIDED
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import consumer_edge, derive_edges, edges_into
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted.damage import damaged
from tallymark_audit.store.counted.groups import first_groups
from tallymark_audit.store.counted.open_transactions import open_transactions
from tallymark_audit.store.counted.openings import overflowed
from tallymark_audit.store.judged.verdict_changes import Answers
from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.alarms import watching
from tallymark_audit.store.reading.alarms.backlogs import (
    Backlog,
    collector_backlogs,
    load_backlogs,
    mirror_backlogs,
)
from tallymark_audit.store.reading.alarms.watching import WrongWindows
from tallymark_audit.store.schema.rows import Row, holes_of

MAX_DISAGREEMENTS = 1000
OF_LATE_MS = 600_000
"""For so long after its last record an overflow is an alert."""
DAMAGE_TOLD_MS = 86_400_000
"""For so long a batch that cannot be read is an alert: later it will not be repaired any more."""
UNDECIDED_YET = tuple(str(state) for state in UNDECIDED)
"""States of a window that holds a watermark and need not be wrong: late records re-opened it, or a
reporter or a counter is only starting."""


def read_facts(
    connection: Connection,
    deployment: Deployment,
    cluster: str,
    edges: Sequence[Edge],
    now: int,
    answers: Answers | None = None,
) -> Facts:
    """The facts of the moment (``now``, ms); ``edges`` are those that the cluster's collector
    judges. Not included is what needs more than the store, or more work: :func:`backlogs` with the
    retention times, and :func:`find_disagreements`. ``answers``: answers about verdicts from the
    last time."""
    audit, names = deployment.audit, tuple(edge.name for edge in edges)
    known = answers or Answers()
    known.look(connection, now)
    bad = known.of(names, lambda: _BadWindows.read(connection, names, audit))
    expected = [(one.cluster, one.group) for one in audit.consumers if one.cluster == cluster]
    reporting = watching.reporting_groups(connection, cluster)
    return Facts(
        missing=bad.missing,
        duplicates=bad.duplicates,
        corrupt=bad.corrupt,
        unjudged=bad.unjudged,
        marks=_marks_behind(connection, edges, audit, now),
        silent=watching.silent_reporters(connection, cluster, audit.silence_ms),
        missing_groups=[one for one in expected if one[1] not in reporting],
        damaged=damaged(connection, cluster, found_since=now - DAMAGE_TOLD_MS),
        hanging=[
            one
            for one in open_transactions(connection, cluster)
            if one.hangs(now, audit.hanging_transaction_ms)
        ],
        overflowed=[
            one for one in overflowed(connection, now - OF_LATE_MS) if one.cluster == cluster
        ],
        heartbeats=_watched(connection, deployment, cluster),
        overdue_ms={edge.name: edge.overdue_ms for edge in edges if edge.kind == "lake"},
    )


class _BadWindows(NamedTuple):
    """The facts that follow from verdicts alone."""

    missing: list[WrongWindows]
    duplicates: list[WrongWindows]
    corrupt: list[WrongWindows]
    unjudged: list[WrongWindows]

    @classmethod
    def read(
        cls, connection: Connection, edges: Collection[str], audit: AuditSettings
    ) -> _BadWindows:
        limits = audit.alerts
        return cls(
            watching.wrong_windows(connection, edges, "missing", limits.missing),
            watching.wrong_windows(connection, edges, "duplicates", limits.duplicates),
            watching.corrupt_windows(connection, edges),
            watching.unjudged_windows(connection, edges),
        )


def judged_edges(connection: Connection, deployment: Deployment, cluster: str) -> tuple[Edge, ...]:
    """The edges that the cluster's collector judges: of the settings, and of the groups that were
    found because they report."""
    declared = edges_into(derive_edges(deployment), cluster)
    names = {edge.name for edge in declared}
    found = [
        consumer_edge(cluster, group, deployment.audit.topics)
        for group in first_groups(connection, cluster)
    ]
    return (*declared, *(edge for edge in found if edge.name not in names))


def backlogs(connection: Connection, cluster: str, edges: Iterable[Edge]) -> list[Backlog]:
    """What the mirrors into the cluster have not copied, the load out of it has not loaded, and its
    collector not counted."""
    found = collector_backlogs(connection, cluster)
    for edge in edges:
        if edge.kind == "mirror":
            found += mirror_backlogs(connection, edge)
        elif edge.kind == "lake":
            found += load_backlogs(connection, edge)
    return found


def watcher_of(cluster: str, clusters: Sequence[str]) -> str:
    """The cluster whose collector reports that the collector of ``cluster`` is silent: the next one
    in the order of the settings. A single cluster has none: Prometheus has to watch it."""
    return clusters[(clusters.index(cluster) + 1) % len(clusters)]


def _watched(connection: Connection, deployment: Deployment, cluster: str) -> Mapping[str, int]:
    """Of clusters that were never collected nothing is expected."""
    clusters = [one.name for one in deployment.clusters]
    return {
        name: heard
        for name, heard in watching.heartbeats(connection).items()
        if name in clusters and name != cluster and watcher_of(name, clusters) == cluster
    }


def _marks_behind(
    connection: Connection, edges: Sequence[Edge], audit: AuditSettings, now: int
) -> list[Mark]:
    """The watermarks that may have stalled: only their settle time is needed."""
    by_name = {edge.name: edge for edge in edges}
    patience = audit.window_ms + audit.settle_min_ms + audit.alerts.stalled_ms
    horizons = Horizons(connection, audit, now)
    return [
        _mark(horizons, Hop(by_name[row["edge"]], ()), row)
        for row in watching.marks(connection, by_name)
        if now - row["through"] > patience
    ]


def _mark(horizons: Horizons, hop: Hop, row: Row) -> Mark:
    topic, through, window_ms = row["topic"], row["through"], horizons.settings.window_ms
    patience = horizons.settle_ms(hop, topic) + hop.edge.overdue_ms
    mark = Mark(hop.edge.name, topic, through, patience)
    for window, state, accepted in holes_of(row):
        if not accepted:
            begun = 0
            if state in UNDECIDED_YET:
                begun = watching.young_since(horizons.connection, mark.edge, topic, window)
            held = f"{utc(window)} is {state}"
            return replace(mark, hole=held, hole_window=window, begun=begun)
    if not through or horizons.counted(hop, topic) - through > window_ms:
        # Nothing was counted yet; or only a reporter is behind, by the clock of its host, which may
        # be slow. Such a watermark moves, and its row is written again each time.
        return replace(mark, begun=row["at"])
    return mark


def find_disagreements(connection: Connection, edges: Collection[str]) -> list[WrongWindows]:
    """Where collector and Spark came to something else, of the newest windows. It reads every
    verdict there is, and Spark runs once a night: not for every look."""
    found: dict[tuple[str, str], WrongWindows] = {}
    for row in queries.disagreements(connection, MAX_DISAGREEMENTS):  # newest first
        if row["edge"] not in edges:
            continue
        key = row["edge"], row["topic"]
        differ = sum(
            abs(row[f"spark_{name}"] - row[f"collector_{name}"])
            for name in ("missing", "duplicates")
        )
        known = found.get(key, WrongWindows(*key, 0, 0, row["window"]))
        found[key] = known._replace(windows=known.windows + 1, messages=known.messages + differ)
    return list(found.values())
