"""Incidents: runs of bad windows of a topic on an edge, from first sight to their end. They stay
long after the windows are good again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from tallymark_audit.store.schema.rows import RowLike
from tallymark_audit.store.schema.tables import incident_windows, window_incidents


@dataclass(frozen=True, slots=True)
class WindowIncident:
    """One incident. ``kind``: the worst state that any of its windows had (LOSS, DUPLICATION,
    CORRUPT, MIXED, UNCLAIMED, UNKNOWN). ``state``: OPEN; ACCEPTED by a person; REPAIRED
    (``repaired_by`` names the repair); EXPLAINED; RESOLVED: what was missing came by itself.

    ``windows`` were bad at some time, ``bad`` are so now, ``accepted`` and ``explained`` ended like
    that. ``missing``, ``duplicates`` and ``unclaimed`` are messages of now, ``worst_...`` the sum
    of the most that each window ever had. Times are ms; ``closed_at`` is 0 while it is open."""

    id: int
    edge: str
    topic: str
    kind: str
    state: str
    first_window: int
    last_window: int
    opened_at: int
    last_change: int
    closed_at: int
    windows: int
    bad: int
    accepted: int
    explained: int
    missing: int
    duplicates: int
    unclaimed: int
    worst_missing: int
    worst_duplicates: int
    worst_unclaimed: int
    repaired_by: str


class WhichIncidents(NamedTuple):
    """Which of them; None or empty is all. ``start`` and ``end`` (ms, excluded): those that had a
    window or were open then. ``find``: a part of the topic's or the edge's name."""

    states: Sequence[str] = ()
    kinds: Sequence[str] = ()
    edge: str | None = None
    topic: str | None = None
    start: int | None = None
    end: int | None = None
    find: str = ""


@dataclass(frozen=True, slots=True)
class IncidentWindow:
    """A window of an incident. ``state``: the last that was decided; ``worst_state`` and
    ``worst_...``: the worst it ever had. ``opened_at``: when it was first seen to be bad (ms);
    ``closed_at``: since when it is good or accepted, 0 while it is bad."""

    edge: str
    topic: str
    window: int
    incident: int
    state: str
    accepted: bool
    missing: int
    duplicates: int
    unclaimed: int
    worst_state: str
    worst_missing: int
    worst_duplicates: int
    worst_unclaimed: int
    opened_at: int
    closed_at: int


_COLUMNS = [window_incidents.c[one.name] for one in fields(WindowIncident)]
_WINDOW = [incident_windows.c[one.name] for one in fields(IncidentWindow)]


def incident_page(
    connection: Connection,
    which: WhichIncidents,
    after: tuple[int, int] | None = None,
    limit: int = 50,
    skip: int = 0,
) -> list[WindowIncident]:
    """Incidents, the newest first. ``after``: ``opened_at`` and ``id`` of the last one of the page
    before."""
    t = window_incidents.c
    query = select(*_COLUMNS).where(*_conditions(which))
    if after is not None:
        at, number = after
        query = query.where(or_(t.opened_at < at, and_(t.opened_at == at, t.id < number)))
    query = query.order_by(t.opened_at.desc(), t.id.desc()).limit(limit).offset(skip)
    return _incidents(connection, query)


def incident_count(connection: Connection, which: WhichIncidents) -> int:
    """How many of them there are."""
    query = select(func.count()).select_from(window_incidents).where(*_conditions(which))
    return connection.scalar(query) or 0


def incident(connection: Connection, number: int) -> WindowIncident | None:
    """The incident of that id, or the one into which it was merged."""
    t = window_incidents.c
    for _ in range(8):
        into = connection.scalar(select(t.merged_into).where(t.id == number))
        if not into:
            break
        number = into
    found = _incidents(connection, select(*_COLUMNS).where(t.id == number))
    return found[0] if found else None


def incidents_of(
    connection: Connection, edge: str | None, topic: str, window: int | None = None
) -> list[WindowIncident]:
    """The incidents of a topic, the newest first; with ``window`` the one of that window, if it was
    ever bad."""
    t = window_incidents.c
    query = select(*_COLUMNS).where(t.topic == topic, t.merged_into == 0)
    if edge is not None:
        query = query.where(t.edge == edge)
    if window is not None:
        w = incident_windows.c
        ids = select(w.incident).where(w.topic == topic, w.window == window)
        query = query.where(t.id.in_(ids if edge is None else ids.where(w.edge == edge)))
    return _incidents(connection, query.order_by(t.opened_at.desc(), t.id.desc()).limit(1000))


def windows_of(
    connection: Connection, number: int, after: int | None = None, limit: int = 200
) -> list[IncidentWindow]:
    """The windows of an incident, the earliest first; only those behind the window ``after``."""
    t = incident_windows.c
    query = select(*_WINDOW).where(t.incident == number)
    if after is not None:
        query = query.where(t.window > after)
    rows = connection.execute(query.order_by(t.window).limit(limit)).mappings()
    return [IncidentWindow(**row) for row in rows]


def wrong_windows_of(connection: Connection, number: int, limit: int) -> list[int]:
    """The first windows (starts, ms) of an incident that are wrong now."""
    t = incident_windows.c
    query = select(t.window).where(t.incident == number, t.closed_at == 0)
    return list(connection.scalars(query.order_by(t.window).limit(limit)))


def _conditions(which: WhichIncidents) -> list[ColumnElement[bool]]:
    t = window_incidents.c
    found: list[ColumnElement[bool]] = [t.merged_into == 0]
    if which.states:
        found.append(t.state.in_(which.states))
    if which.kinds:
        found.append(t.kind.in_(which.kinds))
    if which.edge is not None:
        found.append(t.edge == which.edge)
    if which.topic is not None:
        found.append(t.topic == which.topic)
    if which.end is not None:
        found.append(t.first_window < which.end)
    if which.start is not None:
        found.append(
            or_(t.closed_at == 0, t.closed_at >= which.start, t.last_window >= which.start)
        )
    if which.find:
        text = which.find.lower()
        names = [func.lower(one).contains(text, autoescape=True) for one in (t.topic, t.edge)]
        found.append(or_(*names))
    return found


def _incidents(connection: Connection, query: Select[Any]) -> list[WindowIncident]:
    return [incident_of(row) for row in connection.execute(query).mappings()]


def incident_of(row: RowLike) -> WindowIncident:
    """From a row of the table."""
    return WindowIncident(**{one.name: row[one.name] for one in fields(WindowIncident)})
