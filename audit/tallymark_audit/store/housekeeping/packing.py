"""Which windows are settled and healthy, and putting them into the archive.

A window of a topic on a cluster is packed when nothing has changed in it for a while and every
edge that looks at it has judged it good: the detail stays where something is wrong, also where a
person has accepted it. Since packing forgets nothing, a window packed too soon is no mistake: it
only has to be unpacked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, Table, delete, select, tuple_

from tallymark_audit.judge.states import GOOD, State
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import passes
from tallymark_audit.store.counted import archive as archives
from tallymark_audit.store.counted import totals
from tallymark_audit.store.judged import graph
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import (
    archive,
    claims,
    observations,
    progress,
    verdict_history,
    verdicts,
    watermarks,
    window_changes,
)
from tallymark_audit.store.schema.upsert import upsert

PASSING: Final = (State.OPEN, State.SETTLING)
"""Revisions that only say that it was too soon: not kept of an archived window."""


class Changed(NamedTuple):
    """When (ms) a window was last changed. In the order in which they are looked through."""

    changed_at: int
    topic: str
    window: int


class JudgedState(NamedTuple):
    """A verdict, as far as it matters here."""

    edge: str
    topic: str
    window: int
    state: str
    accepted: bool


def quiet_windows(
    connection: Connection, cluster: str, before: int, after: Changed | None, most: int
) -> list[Changed]:
    """Windows of a cluster that last changed at ``before`` (ms) or earlier, behind ``after``."""
    columns = [window_changes.c[name] for name in Changed._fields]
    query = select(*columns).where(
        window_changes.c.cluster == cluster, window_changes.c.changed_at <= before
    )
    if after is not None:
        query = query.where(tuple_(*columns) > after)
    return [Changed(*row) for row in connection.execute(query.order_by(*columns).limit(most))]


def healthy(
    connection: Connection, edges: Sequence[Edge], cluster: str, quiet: Iterable[Changed]
) -> list[Changed]:
    """Those of the windows that every edge at the cluster has judged good."""
    quiet = list(quiet)
    names = _names(connection, edges, cluster, {one.topic for one in quiet})
    judged = _judged(connection, edges, cluster, names, {one.window for one in quiet})
    return [
        one
        for one in quiet
        if is_healthy(
            _expected(edges, cluster, one.topic),
            [
                verdict
                for name in names[one.topic]
                for verdict in judged.get((name, one.window), ())
                if _touches(verdict.edge, edges, cluster, name == one.topic)
            ],
        )
    ]


def is_healthy(expected: Iterable[str], judged: Sequence[JudgedState]) -> bool:
    """Whether a window may be packed: there is a verdict, every ``expected`` edge has one, and all
    of them, also those of the second source, are good without an acceptance."""
    good = all(one.state in GOOD and not one.accepted for one in judged)
    return bool(judged) and good and set(expected) <= {one.edge for one in judged}


def collapse(connection: Connection, cluster: str, some: Sequence[Changed], now: int) -> int:
    """Pack these windows, those of them that have not changed since; how many were. Run within a
    transaction that only the cluster's keeper can make."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for one in _locked(connection, cluster, some):
        by_topic[one.topic].append(one.window)
    for topic, windows in by_topic.items():
        _pack(connection, cluster, topic, windows, now)
    return sum(map(len, by_topic.values()))


def forget_passing(
    connection: Connection, edges: Sequence[Edge], cluster: str, some: Iterable[Changed]
) -> None:
    """Drop the revisions that only said that it was too early, on the edges at the cluster, of now
    (``edges``) and of before. They are asked for by name: the primary key begins with it."""
    known = {one.name for one in edges} | {one.edge.name for one in graph.known_edges(connection)}
    names = sorted(name for name in known if name.endswith(f"-to-{cluster}"))
    by_topic: dict[str, list[int]] = defaultdict(list)
    for one in some:
        by_topic[one.topic].append(one.window)
    for topic, windows in by_topic.items():
        connection.execute(
            delete(verdict_history).where(
                verdict_history.c.edge.in_(names),
                verdict_history.c.topic == topic,
                verdict_history.c.window.in_(windows),
                verdict_history.c.state.in_(PASSING),
            )
        )


def _locked(connection: Connection, cluster: str, some: Sequence[Changed]) -> list[Changed]:
    """Lock the rows, so that writers of these windows wait, and leave out those that changed."""
    columns = [window_changes.c[name] for name in Changed._fields]
    query = select(*columns).where(
        window_changes.c.cluster == cluster,
        tuple_(window_changes.c.topic, window_changes.c.window).in_(
            [(one.topic, one.window) for one in some]
        ),
    )
    held = {Changed(*row) for row in connection.execute(query.with_for_update())}
    return [one for one in some if one in held]


def _pack(
    connection: Connection, cluster: str, topic: str, windows: Sequence[int], now: int
) -> None:
    # What is packed by some chance already is unpacked first: one row holds all of a window.
    archives.restore(connection, cluster, topic, windows)
    seen = _rows_of(connection, observations, cluster, topic, windows)
    said = _rows_of(connection, claims, cluster, topic, windows)
    rows = [
        {
            "cluster": cluster,
            "topic": topic,
            "window": window,
            "cells": len(seen[window]) + len(said[window]),
            "ends": archives.ends_of(seen[window]),
            "packed_at": now,
            "packed": archives.pack({observations.name: seen[window], claims.name: said[window]}),
        }
        for window in windows
    ]
    upsert(connection, archive, rows)
    cells = {window: (seen[window], said[window]) for window in windows}
    totals.remember(connection, cluster, topic, cells)
    for table in (observations, claims, window_changes):
        here = table.c.cluster == cluster, table.c.topic == topic, table.c.window.in_(windows)
        connection.execute(delete(table).where(*here))


def _rows_of(
    connection: Connection, table: Table, cluster: str, topic: str, windows: Sequence[int]
) -> Mapping[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    keys = list(table.primary_key.columns)
    query = select(table).where(
        table.c.cluster == cluster, table.c.topic == topic, table.c.window.in_(windows)
    )
    # A writer locks the cell first and the window last, the other way round: a writer that finds a
    # cell locked gives up at once, or both would wait until the database ends one of them.
    held = query.order_by(*keys).with_for_update(nowait=True)
    result = connection.execute(held)
    names = tuple(result.keys())
    for values in result:
        row = dict(zip(names, values, strict=True))
        found[row["window"]].append(row)
    return found


def _names(
    connection: Connection, edges: Sequence[Edge], cluster: str, topics: Iterable[str]
) -> dict[str, set[str]]:
    """Under which names verdicts speak of the cluster's topics: their own, and those upstream."""
    names = {topic: {topic} for topic in topics}
    for edge in edges:
        if edge.kind == "mirror" and edge.downstream == cluster:
            query = select(progress.c.topic).where(progress.c.cluster == edge.upstream).distinct()
            known = list(connection.execute(query).scalars())
            for topic, found in names.items():
                found.update(edge.upstream_topics(topic, known))
    return names


def _judged(
    connection: Connection,
    edges: Sequence[Edge],
    cluster: str,
    names: Mapping[str, set[str]],
    windows: Iterable[int],
) -> dict[tuple[str, int], list[JudgedState]]:
    """The verdicts of the edges at the cluster, by topic and window."""
    known = {edge.name for edge in edges}
    known |= set(connection.execute(select(watermarks.c.edge).distinct()).scalars())
    columns = [verdicts.c[name] for name in ("edge", "topic", "window", "state", "accepted_by")]
    query = select(*columns).where(
        verdicts.c.edge.in_(sorted(e for e in known if _touches(e, edges, cluster, True))),
        verdicts.c.topic.in_(sorted({name for some in names.values() for name in some})),
        verdicts.c.window.in_(sorted(windows)),
    )
    found: dict[tuple[str, int], list[JudgedState]] = defaultdict(list)
    for row in connection.execute(query):
        judged = JudgedState(row.edge, row.topic, row.window, row.state, bool(row.accepted_by))
        found[judged.topic, judged.window].append(judged)
    return found


def _expected(edges: Sequence[Edge], cluster: str, topic: str) -> set[str]:
    """The edges that must have judged what the cluster has: its mirrors' and the load's."""
    return {
        edge.name
        for edge in edges
        if edge.kind in ("mirror", "lake") and edge.upstream == cluster and passes(edge, topic)
    }


def _touches(name: str, edges: Sequence[Edge], cluster: str, same_topic: bool) -> bool:
    """Whether the edge looks at the cluster; one that is not of the settings (any more) goes by its
    name. Under another topic's name only the mirror into the cluster does."""
    edge = next((edge for edge in edges if edge.name == name), None)
    if edge is None:
        return same_topic and (name.startswith(f"{cluster}-to-") or name.endswith(f"-to-{cluster}"))
    return edge.downstream == cluster or (same_topic and edge.upstream == cluster)
