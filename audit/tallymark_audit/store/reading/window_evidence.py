"""All that the store knows of one window of a topic on one edge, for the page and the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, select

from tallymark_audit.model.cells import GROUP, LAKE, Edge
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.store.counted import archive
from tallymark_audit.store.judged import graph
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.schema.portions import MOST_ROWS, Portion, portion, portion_of
from tallymark_audit.store.schema.rows import Row, is_cells, shown_verdict
from tallymark_audit.store.schema.tables import (
    claims,
    incidents,
    observations,
    repairs,
    reporter_topics,
    reporters,
    verdict_history,
    verdicts,
)

MOST_EVENTS = 200
"""Revisions, incidents and repairs told of one window, the last ones."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one window of a topic on one edge.

    ``verdicts``: one row a source, the effective one first, each with its ``cells``. ``upstream``
    and ``downstream``: rows of claims or observations on either side. ``history``: the last
    revisions, oldest first. ``incidents``: the last of the topic, on both clusters. Each list is a
    portion: ``left_out`` has the number of further rows, by list; ``cells`` are those of the
    verdicts."""

    verdicts: tuple[Row, ...]
    upstream: tuple[Row, ...]
    downstream: tuple[Row, ...]
    reporters: tuple[Row, ...]
    history: tuple[Row, ...]
    incidents: tuple[Row, ...]
    repairs: tuple[Row, ...]
    left_out: dict[str, int] = field(default_factory=dict[str, int])


def evidence(
    connection: Connection, edge: str, topic: str, window: int, most: int = MOST_ROWS
) -> Evidence:
    """About one window; ``edge`` by its name, as in ``producer-to-dc1``. ``most``: rows of each
    side, and cells of each verdict."""
    one = (verdicts.c.edge == edge, verdicts.c.topic == topic, verdicts.c.window == window)
    known = _edge(connection, edge)
    clusters = tuple({known.upstream, known.downstream, known.home} - {PRODUCER})
    names = (topic, known.downstream_topic(topic))
    past, mended, met = verdict_history.c, repairs.c, incidents.c
    revisions = select(verdict_history).where(
        past.edge == edge, past.topic == topic, past.window == window
    )
    copies = select(repairs).where(
        mended.edge == edge, mended.topic == topic, mended.window == window
    )
    happened = select(incidents).where(met.cluster.in_(clusters), met.topic.in_(names))
    parts = {
        "upstream": _upstream(connection, known, topic, window, most),
        "downstream": _downstream(connection, known, topic, window, most),
        "reporters": reporters_of_topic(connection, clusters, topic, most),
        "history": _last(connection, revisions, past.judged_at, past.revision),
        "incidents": _last(connection, happened, met.id),
        "repairs": _last(connection, copies, mended.id),
    }
    judged, cells = _judged(connection, one, most)
    left_out = {name: part.left_out for name, part in parts.items()} | {"cells": cells}
    return Evidence(
        verdicts=tuple(judged),
        left_out={name: count for name, count in left_out.items() if count},
        **{name: part.rows for name, part in parts.items()},
    )


def _judged(
    connection: Connection, one: tuple[ColumnElement[bool], ...], most: int
) -> tuple[list[Row], int]:
    """The verdicts of a window, the one that holds first, with the worst of their cells; of how
    many cells no row is given."""
    held = {row["source"] for row in _rows(connection, select(verdicts).where(*one, effective()))}
    found = _rows(connection, select(verdicts).where(*one))
    found.sort(key=lambda row: row["source"] not in held)
    left = 0
    for row in found:
        if is_cells(row["cells"]):
            part = portion_of(row["cells"], most)
            row["cells"] = list(part.rows)
            left += part.left_out
    return found, left


def _last(connection: Connection, query: Select[Any], *by: ColumnElement[Any]) -> Portion:
    """The newest rows, in their order."""
    found = portion(connection, query.order_by(*(one.desc() for one in by)), MOST_EVENTS)
    return replace(found, rows=tuple(reversed(found.rows)))


def reporters_of_topic(
    connection: Connection, clusters: Sequence[str], topic: str, most: int = MOST_ROWS
) -> Portion:
    """The reporters that publish to the topic on these clusters."""
    publishing = and_(
        reporter_topics.c.cluster == reporters.c.cluster,
        reporter_topics.c.reporter == reporters.c.reporter,
    )
    query = (
        select(reporters)
        .join(reporter_topics, publishing)
        .where(reporter_topics.c.topic == topic, reporters.c.cluster.in_(clusters))
        .order_by(reporters.c.server, reporters.c.first_seen)
    )
    return portion(connection, query, most)


def shown_evidence(found: Evidence) -> Evidence:
    """With its verdicts as they are shown, those of before too."""
    return replace(
        found,
        verdicts=tuple(shown_verdict(row) for row in found.verdicts),
        history=tuple(shown_verdict(row) for row in found.history),
    )


def _edge(connection: Connection, name: str) -> Edge:
    """The edge of that name as it is or last was; if it was never stored, from its name."""
    for known in graph.known_edges(connection):
        if known.edge.name == name:
            return known.edge
    upstream, _, downstream = name.partition("-to-")
    if upstream == PRODUCER:
        return Edge(name, upstream, downstream, "producer")
    kind: Literal["consumer", "lake", "mirror"] = "mirror"
    if downstream.startswith(GROUP):
        kind = "consumer"
    elif downstream == LAKE:
        kind = "lake"
    return Edge(name, upstream, downstream, kind)


def _upstream(connection: Connection, edge: Edge, topic: str, window: int, most: int) -> Portion:
    if edge.kind != "producer":
        return _cells(connection, observations, edge.upstream, topic, window, "cluster", most)
    return _cells(connection, claims, edge.downstream, topic, window, "producer", most)


def _downstream(connection: Connection, edge: Edge, topic: str, window: int, most: int) -> Portion:
    """The counts downstream; for a group, what each of its runs reports as processed, for the lake,
    what each commit reports as loaded."""
    if not edge.reported:
        there = edge.downstream_topic(topic)
        return _cells(connection, observations, edge.downstream, there, window, "cluster", most)
    members = select(reporters.c.reporter).where(
        reporters.c.cluster == edge.upstream, reporters.c.consumer_group == edge.group
    )
    found = _cells(connection, claims, edge.upstream, topic, window, edge.kind, most, members)
    return replace(found, rows=tuple({**row, "ranges": row["acknowledged"]} for row in found.rows))


def _cells(
    connection: Connection,
    source: Table,
    cluster: str,
    topic: str,
    window: int,
    tier: str,
    most: int,
    members: Select[tuple[str]] | None = None,
) -> Portion:
    """The first cells of a window, by partition, server and instance; ``members``: only what these
    have reported."""
    t = source.c
    query = select(source).where(
        t.cluster == cluster, t.topic == topic, t.window == window, t.tier == tier
    )
    if members is not None:
        query = query.where(t.reporter.in_(members))
    found = portion(connection, query.order_by(t.partition, t.server, t.instance), most)
    packed = [
        row
        for row in archive.packed_rows(connection, source, cluster, topic, [window], set())
        if row["tier"] == tier
    ]
    if not packed:
        return found
    if members is not None:
        ours = set(connection.scalars(members))
        packed = [row for row in packed if row["reporter"] in ours]
    rows = sorted([*found.rows, *packed], key=lambda row: [row[name] for name in _ORDER])
    both = portion_of(rows, most)
    return replace(both, left_out=both.left_out + found.left_out)


_ORDER = ("partition", "server", "instance")


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]  # twice as fast as by mappings()
