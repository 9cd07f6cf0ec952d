"""All that the store knows of one window of a topic on one edge, for the page and the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from tallymark_audit.model.cells import GROUP, LAKE, Edge
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.store.judged import graph
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.reading.sides import Cell, both_sides
from tallymark_audit.store.schema.portions import MOST_ROWS, Portion, portion, portion_of
from tallymark_audit.store.schema.rows import Row, is_cells
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_audit.store.schema.tables import (
    incidents,
    repairs,
    reporter_topics,
    reporters,
    verdict_history,
    verdicts,
    worst_cells,
)

MOST_EVENTS = 200
"""Revisions, incidents and repairs shown of one window, the last ones."""


@dataclass(frozen=True, slots=True)
class Was:
    """The state of the window at its worst, the cells that were named then, with the offsets where
    the messages were, and since when (ms) it is better."""

    state: str
    until: int
    cells: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one window of a topic on one edge.

    ``verdicts``: one row a source, the effective one first, each with its ``cells``. ``upstream``
    and ``downstream``: rows of claims or observations on either side, of the same cells; those of
    other hops into the same logs (``other_hops`` rows) are in neither. ``history``: the last
    revisions, oldest first. ``incidents``: the last of the topic, on both clusters. Each list is a
    portion: ``left_out`` has the number of further rows, by list; ``cells`` are those of the
    verdicts. ``was``: what was wrong, if the window is better now."""

    verdicts: tuple[Row, ...]
    upstream: tuple[Row, ...]
    downstream: tuple[Row, ...]
    reporters: tuple[Row, ...]
    history: tuple[Row, ...]
    incidents: tuple[Row, ...]
    repairs: tuple[Row, ...]
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    other_hops: int = 0
    was: Was | None = None


def evidence(
    connection: Connection, edge: str, topic: str, window: int, most: int = MOST_ROWS
) -> Evidence:
    """About one window; ``edge`` by its name, as in ``producer-to-dc1``. ``most``: rows of each
    side, and cells of each verdict."""
    one = (verdicts.c.edge == edge, verdicts.c.topic == topic, verdicts.c.window == window)
    edges = [each.edge for each in graph.known_edges(connection)]
    known = edge_of(edges, edge)
    clusters = tuple({known.upstream, known.downstream, known.home} - {PRODUCER})
    names = (topic, known.downstream_topic(topic))
    past, done, met = verdict_history.c, repairs.c, incidents.c
    revisions = select(verdict_history).where(
        past.edge == edge, past.topic == topic, past.window == window
    )
    copies = select(repairs).where(done.edge == edge, done.topic == topic, done.window == window)
    happened = select(incidents).where(met.cluster.in_(clusters), met.topic.in_(names))
    judged, cells = _judged(connection, one, most)
    both = both_sides(connection, known, edges, topic, window, most, _bad(judged))
    parts = {
        "upstream": both.upstream,
        "downstream": both.downstream,
        "reporters": reporters_of_topic(connection, clusters, topic, most),
        "history": _last(connection, revisions, past.judged_at, past.revision),
        "incidents": _last(connection, happened, met.id),
        "repairs": _last(connection, copies, done.id),
    }
    left_out = {name: part.left_out for name, part in parts.items()} | {"cells": cells}
    return Evidence(
        verdicts=tuple(judged),
        other_hops=both.others,
        was=_was(connection, edge, topic, window, most),
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


def _was(connection: Connection, edge: str, topic: str, window: int, most: int) -> Was | None:
    t = worst_cells.c
    query = select(worst_cells).where(t.edge == edge, t.topic == topic, t.window == window)
    for row in _rows(connection, query):
        cells = row["cells"] if is_cells(row["cells"]) else []
        return Was(row["state"], row["until"], portion_of(cells, most).rows)
    return None


def _bad(judged: Sequence[Row]) -> list[Cell]:
    """The cells that the verdicts name, the worst first."""
    return [
        (cell["partition"], cell["server"], cell["instance"])
        for row in judged
        if is_cells(row["cells"])
        for cell in row["cells"]
    ]


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


def edge_of(known: Sequence[Edge], name: str) -> Edge:
    """The edge of that name as it is or last was; if it was never stored, from its name."""
    for edge in known:
        if edge.name == name:
            return edge
    upstream, _, downstream = name.partition("-to-")
    if upstream == PRODUCER:
        return Edge(name, upstream, downstream, "producer")
    kind: Literal["consumer", "lake", "mirror"] = "mirror"
    if downstream.startswith(GROUP):
        kind = "consumer"
    elif downstream == LAKE:
        kind = "lake"
    return Edge(name, upstream, downstream, kind)


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]  # twice as fast as by mappings()
