"""Clusters and the edges between them: brokers and partitions from the snapshots, lag and
completeness of the edges from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark_audit.model.cells import LAKE, Edge
from tallymark_audit.model.edges import PRODUCER, derive_edges
from tallymark_audit.store.counted.incidents import GIVEN_UP, UNCLEAN_ELECTION
from tallymark_audit.store.reading.alarms.backlogs import HopFacts, hop_facts
from tallymark_audit.store.reading.records import WhichRecords, log_event_page
from tallymark_audit.store.schema.rows import Row
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.snapshots.broker_rows import BrokerRow, broker_rows
from tallymark_dashboards.snapshots.cluster_counts import BadPartition, ClusterCounts, counts_of
from tallymark_dashboards.snapshots.shapes import ClusterState
from tallymark_dashboards.view.clusters.edge_rows import EdgeRow, arrows, drawn_rows, edge_row
from tallymark_dashboards.view.clusters.stale import stale_parts
from tallymark_dashboards.view.clusters.topology import Node, drawing
from tallymark_dashboards.view.marks import Tone

BAD_PARTITIONS: Final = 100
"""Partitions of a cluster that are named."""
REPLICATION: Final = (UNCLEAN_ELECTION, GIVEN_UP)
UNCLEAN: Final = 50
"""Unclean elections and cuts of the range that are shown."""


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster with its counts; ``bad``: the first of its partitions in danger. ``said``: its
    state in words, as ``symbol`` and ``tone`` show it."""

    state: ClusterState
    counts: ClusterCounts
    bad: tuple[BadPartition, ...]
    brokers: tuple[BrokerRow, ...]
    tone: Tone
    symbol: str
    said: str


@page("/clusters", name="clusters", nav="Clusters", live=True, needs_store=False)
def clusters(ask: Ask) -> Page:
    """All clusters, what leads from one to the other, and which partitions are in danger."""
    deployment = ask.context.deployment
    states = ask.context.snapshots.clusters
    rows = [_cluster(one) for one in states]
    edges = derive_edges(deployment)
    facts, unclean = _of_store(ask, edges)
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
    without = sum((one.counts.leaderless or 0) + (one.counts.below_min or 0) for one in rows)
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
        "unclean": unclean,
        "events_query": {**ask.range.asked, "kind": REPLICATION},
    }
    return Page("Clusters", "pages/clusters.html", values, tone, without + lost)


def _of_store(
    ask: Ask, edges: Sequence[Edge]
) -> tuple[Mapping[str, HopFacts] | None, Sequence[Row]]:
    """What the audit knows of the edges, and of unclean elections; None and nothing while its store
    cannot be read."""
    start, end = ask.range.start, ask.range.end
    which = WhichRecords(start, end, kinds=REPLICATION)
    if not ask.away:
        try:
            with ask.context.store.read() as connection:
                facts = hop_facts(connection, edges, start, end)
                found = log_event_page(connection, which, None, UNCLEAN)
                # A broker that was killed reports its election when others have said what they cut.
                return facts, sorted(found, key=lambda one: (-one["at"], -one["id"]))
        except SQLAlchemyError:
            pass
    return None, ()


def _cluster(state: ClusterState) -> ClusterRow:
    counts = counts_of(state)
    said: tuple[Tone, str, str]
    in_danger = bool(counts.leaderless or counts.below_min)
    if state.brokers.error:
        said = "bad" if in_danger else "warn", "!", "away"
    elif counts.leaderless:
        said = "bad", "✗", f"{counts.leaderless:,} without a leader"
    elif counts.below_min:
        said = "bad", "✗", f"{counts.below_min:,} refuse acks=all"
    elif counts.under_replicated:
        said = "warn", "!", f"{counts.under_replicated:,} under-replicated"
    elif counts.topics is None:
        said = "wait", "?", "not read yet"
    else:
        said = "good", "✓", "well"
    return ClusterRow(state, counts, counts.bad[:BAD_PARTITIONS], broker_rows(state, counts), *said)


def _nodes(rows: Sequence[ClusterRow], drawn: Sequence[EdgeRow], lake: str) -> list[Node]:
    found = []
    if any(one.edge.upstream == PRODUCER for one in drawn):
        found.append(Node(PRODUCER, "what applications send"))
    for row in rows:
        brokers = row.state.brokers.value
        many = len(brokers.brokers) if brokers else 0
        text = f"{many} broker{'s' if many != 1 else ''}" if row.tone == "good" else row.said
        found.append(Node(row.state.name, text, row.tone, row.symbol))
    return [*found, Node(lake, "tables of the load job")] if lake else found
