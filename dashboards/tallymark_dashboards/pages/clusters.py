"""Clusters and the edges between them: brokers and partitions from the snapshots, lag and
completeness of the edges from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark_audit.model.cells import LAKE, Edge
from tallymark_audit.model.edges import PRODUCER, derive_edges
from tallymark_audit.store.reading.alarms.backlogs import HopFacts, hop_facts
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.snapshots.cluster_counts import BadPartition, ClusterCounts, counts_of
from tallymark_dashboards.snapshots.shapes import ClusterState
from tallymark_dashboards.view.clusters.edge_rows import EdgeRow, arrows, drawn_rows, edge_row
from tallymark_dashboards.view.clusters.stale import stale_parts
from tallymark_dashboards.view.clusters.topology import Node, drawing
from tallymark_dashboards.view.marks import Tone

BAD_PARTITIONS: Final = 100
"""Partitions of a cluster that are named."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster with its counts; ``bad``: the first of its partitions in danger."""

    state: ClusterState
    counts: ClusterCounts
    bad: tuple[BadPartition, ...]
    tone: Tone
    away: bool


@page("/clusters", name="clusters", nav="Clusters", live=True, needs_store=False)
def clusters(ask: Ask) -> Page:
    """All clusters, what leads from one to the other, and which partitions are in danger."""
    deployment = ask.context.deployment
    states = ask.context.snapshots.clusters
    rows = [_cluster(one) for one in states]
    edges = derive_edges(deployment)
    facts = _facts(ask, edges)
    hops = [edge_row(one, facts[one.name] if facts else None) for one in edges]
    drawn = drawn_rows(hops)
    lakes = LAKE if any(one.edge.downstream == LAKE for one in hops) else ""
    stale = [
        one
        for state in states
        for one in stale_parts(
            state.name, [("brokers", state.brokers), ("topics", state.topics)], ask.now
        )
    ]
    without = sum(one.counts.leaderless or 0 for one in rows)
    lost = sum(one.tone == "bad" for one in hops)
    tone: Tone = "bad" if without or lost else "warn" if stale else ""
    values = {
        "rows": rows,
        "hops": hops,
        "edges_known": facts is not None,
        "drawing": drawing(
            _nodes(rows, drawn, lakes), arrows(drawn), "Clusters and the edges between them"
        ),
        "stale": stale,
        "without": without,
    }
    return Page("Clusters", "pages/clusters.html", values, tone, without + lost)


def _facts(ask: Ask, edges: Sequence[Edge]) -> Mapping[str, HopFacts] | None:
    """What the audit knows of the edges; None: its store cannot be read."""
    if ask.away:
        return None
    try:
        with ask.context.store.read() as connection:
            return hop_facts(connection, edges, ask.range.start, ask.range.end)
    except SQLAlchemyError:
        return None


def _cluster(state: ClusterState) -> ClusterRow:
    counts = counts_of(state)
    away = bool(state.brokers.error)
    unsure = away or counts.topics is None
    tone: Tone = "bad" if counts.leaderless else "warn" if counts.under_replicated or unsure else ""
    return ClusterRow(state, counts, counts.bad[:BAD_PARTITIONS], tone, away)


def _nodes(rows: Sequence[ClusterRow], drawn: Sequence[EdgeRow], lake: str) -> list[Node]:
    found = []
    if any(one.edge.upstream == PRODUCER for one in drawn):
        found.append(Node(PRODUCER, "what applications send"))
    for row in rows:
        brokers = row.state.brokers.value
        many = len(brokers.brokers) if brokers else 0
        if row.away:
            text, symbol = "away", "!"
        elif row.counts.leaderless:
            text, symbol = f"{row.counts.leaderless:,} without a leader", "✗"
        elif row.counts.under_replicated:
            text, symbol = f"{row.counts.under_replicated:,} under-replicated", "!"
        elif brokers is None:
            text, symbol = "not read yet", "?"
        else:
            text, symbol = f"{many} broker{'s' if many != 1 else ''}", "✓"
        found.append(Node(row.state.name, text, row.tone or "good", symbol))
    return [*found, Node(lake, "tables of the load job")] if lake else found
