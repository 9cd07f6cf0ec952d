"""From one window to the next: its neighbours, and the bad ones before and behind it."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from tallymark_audit.store.schema.tables import incident_windows, topic_sums, verdicts


class Neighbours(NamedTuple):
    """Windows of the same topic and edge (starts, ms); None where there is none. ``previous`` and
    ``following`` have a verdict. The ``bad`` ones are bad now; the ``healed`` ones were bad at some
    time, and are not any more. ``first_bad`` is the earliest of all."""

    previous: int | None = None
    following: int | None = None
    first_bad: int | None = None
    previous_bad: int | None = None
    next_bad: int | None = None
    previous_healed: int | None = None
    next_healed: int | None = None


def neighbours(connection: Connection, edge: str, topic: str, window: int) -> Neighbours:
    """Those of the window that begins at ``window`` (ms), whether it has a verdict or not."""
    v, bad = verdicts.c, incident_windows.c
    judged = v.edge == edge, v.topic == topic
    ill = bad.edge == edge, bad.topic == topic, bad.closed_at == 0
    healed = bad.edge == edge, bad.topic == topic, bad.closed_at != 0

    def first(column: ColumnElement[int], *where: ColumnElement[bool]) -> ColumnElement[int]:
        return select(func.min(column)).where(*where).scalar_subquery()

    def last(column: ColumnElement[int], *where: ColumnElement[bool]) -> ColumnElement[int]:
        return select(func.max(column)).where(*where).scalar_subquery()

    query = select(
        last(v.window, *judged, v.window < window),
        first(v.window, *judged, v.window > window),
        first(bad.window, *ill),
        last(bad.window, *ill, bad.window < window),
        first(bad.window, *ill, bad.window > window),
        last(bad.window, *healed, bad.window < window),
        first(bad.window, *healed, bad.window > window),
    )
    return Neighbours(*connection.execute(query).one())


def first_bad(connection: Connection, start: int, end: int) -> tuple[str, str, int] | None:
    """Edge, topic and window (start, ms) of the first window from ``start`` up to ``end`` (ms,
    excluded) that is bad now; None: there is none."""
    t = incident_windows.c
    query = select(t.edge, t.topic, t.window).where(
        t.window >= start, t.window < end, t.closed_at == 0
    )
    row = connection.execute(query.order_by(t.window, t.edge, t.topic).limit(1)).first()
    return (row.edge, row.topic, row.window) if row is not None else None


def topics_named(connection: Connection, find: str, limit: int) -> list[str]:
    """The topics with that in their name, or all, by name: for "did you mean"."""
    t = topic_sums.c
    query = select(t.topic).where(t.topic != "").distinct().order_by(t.topic).limit(limit)
    if find:
        query = query.where(func.lower(t.topic).contains(find.lower(), autoescape=True))
    return list(connection.scalars(query))


def edges_known(connection: Connection, topic: str | None = None) -> list[str]:
    """The edges that have or had a verdict, of a topic or of any, by name."""
    t = topic_sums.c
    query = select(t.edge).where(t.topic == ("" if topic is None else topic))
    return list(connection.scalars(query.order_by(t.edge)))
