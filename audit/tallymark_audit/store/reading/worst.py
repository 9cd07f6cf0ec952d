"""The topics, the worst first, a page at a time: what the overview, the heatmap and the wall
list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from tallymark_audit.store.reading.sums import STATEMENTS, Sums, hop_sums, once, period_sums
from tallymark_audit.store.schema.rows import Row, holes_of
from tallymark_audit.store.schema.tables import topic_sums, watermarks

_WRONG = ("missing", "duplicates", "unclaimed", "bad")
_NAMED = 500
"""So many topics are named in a statement."""


@dataclass(frozen=True, slots=True)
class HopSums:
    """One topic on one edge in a period. ``through`` and ``horizon`` are ms, -1 without a
    watermark; ``holes``: window, state, and whether it is accepted, the oldest first. ``last``: its
    newest window of all (start, ms)."""

    edge: str
    sums: Sums
    through: int = -1
    horizon: int = -1
    holes: tuple[tuple[int, str, bool], ...] = ()
    last: int = -1


@dataclass(frozen=True, slots=True)
class TopicSums:
    """One topic in a period. ``sums``: each message once (:func:`~.sums.once`); ``hops``: every
    edge that ever had it, the first hops first. ``through``: the earliest of their watermarks."""

    topic: str
    sums: Sums
    hops: tuple[HopSums, ...]
    through: int = -1


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of topics. ``topics``: how many there are in all; ``bad``: how many of them have bad
    windows in the period, which come first."""

    rows: tuple[TopicSums, ...]
    topics: int
    bad: int


def worst(
    connection: Connection, start: int, end: int, limit: int = 50, skip: int = 0, find: str = ""
) -> TopicPage:
    """The topics with bad windows that begin from ``start`` up to ``end`` (ms, excluded), by the
    number of missing messages, of duplicates, of unclaimed ones and of bad windows; then all
    others, by name. ``find``: only those that have it in their name or in that of an edge, without
    regard to case. ``skip``: so many of them come before."""
    names, topics, bad = _names(connection, start, end, limit, skip, find)
    sums = hop_sums(connection, names, start, end)
    places = _places(connection, names)
    rows = [_topic(name, sums.get(name, {}), places.get(name, {})) for name in names]
    return TopicPage(tuple(rows), topics, bad)


def _names(
    connection: Connection, start: int, end: int, limit: int, skip: int, find: str
) -> tuple[list[str], int, int]:
    """The bad ones are few, and found by an index of their own; the others come from the index of
    names, only as many as are shown. One query for both would sort all topics."""
    t = topic_sums.c
    known = _known(find)
    ill, ordered = _bad_topics(start, end, find)
    bad = list(connection.scalars(ordered))
    names = bad[skip : skip + limit]
    if len(names) < limit:
        without = bad if len(bad) <= _NAMED else ill  # few are named: they are known already
        rest = known.where(t.topic.not_in(without)).order_by(t.topic)
        rest = rest.limit(limit - len(names)).offset(max(0, skip - len(bad)))
        names += connection.scalars(rest)
    topics = connection.scalar(select(func.count()).select_from(known.subquery()))
    return names, topics or 0, len(bad)


@lru_cache(maxsize=STATEMENTS)
def _bad_topics(start: int, end: int, find: str) -> tuple[Select[Any], Select[Any]]:
    """The topics with bad windows, as they come and in order."""
    period = period_sums(start, end, only="bad")
    ill = select(period.c.topic)
    if find:
        ill = ill.where(period.c.topic.in_(_known(find)))
    wrong = [func.sum(period.c[name]).desc() for name in _WRONG]
    return ill, ill.group_by(period.c.topic).order_by(*wrong, period.c.topic)


def _known(find: str) -> Select[Any]:
    t = topic_sums.c
    return select(t.topic).where(t.topic != "", *_found(find)).distinct()


def _found(find: str) -> list[ColumnElement[bool]]:
    if not find:
        return []
    t, text = topic_sums.c, find.lower()
    return [
        or_(
            func.lower(t.topic).contains(text, autoescape=True),
            func.lower(t.edge).contains(text, autoescape=True),
        )
    ]


def _places(connection: Connection, topics: list[str]) -> dict[str, dict[str, Row]]:
    """Every edge that had a verdict of these topics, with its watermark."""
    if not topics:
        return {}
    t, w = topic_sums.c, watermarks.c
    query = (
        select(t.edge, t.topic, t.last_window, w.through, w.horizon, w.holes)
        .outerjoin(watermarks, (w.edge == t.edge) & (w.topic == t.topic))
        .where(t.topic.in_(topics))
    )
    found: dict[str, dict[str, Row]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["topic"], {})[row["edge"]] = dict(row)
    return found


def _topic(name: str, sums: dict[str, Sums], places: dict[str, Row]) -> TopicSums:
    hops = [
        HopSums(
            edge,
            sums.get(edge, Sums()),
            _or_none(row["through"]),
            _or_none(row["horizon"]),
            tuple(holes_of(row)),
            row["last_window"],
        )
        for edge, row in places.items()
    ]
    first = {edge for edge in places if edge.startswith("producer-")}
    hops.sort(key=lambda hop: (hop.edge not in first, hop.edge))
    marks = [hop.through for hop in hops if hop.through >= 0]
    return TopicSums(name, once(sums), tuple(hops), min(marks, default=-1))


def _or_none(value: int | None) -> int:
    return -1 if value is None else value
