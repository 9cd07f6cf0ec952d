"""Delete what is old enough, in portions.

What holds a watermark is never deleted silently: the verdict of a window that is neither good nor
accepted stays, with its history and the messages it names, however old it is. Only the cells behind
it go. A reporter that has neither closed nor been retired stays too, since windows wait for it.

A window is old when it lies before the retention *and* nothing changed in it since: records stamped
in the far past are kept as long as others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from tallymark_audit.judge.states import GOOD
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.counted.recounts import SLOW
from tallymark_audit.store.counted.totals import DAY, HOUR, MINUTES_10, WINDOW
from tallymark_audit.store.judged.effective import effective
from tallymark_audit.store.judged.sums import EDGE, ChangedVerdicts, lock_edge
from tallymark_audit.store.judged.verdict_changes import note_change
from tallymark_audit.store.schema import tables

HOURS_KEPT: Final = 700 * DAY
"""Totals of hours are kept so much longer, those of days for ever."""
WINDOWS_AT_ONCE: Final = 50
SUMS_KEPT: Final = 90 * DAY
"""Sums of the verdicts of hours are kept so much longer than the verdicts ..."""
EDGE_SUMS_KEPT: Final = HOURS_KEPT
"""... those of whole edges, which are few, so much, ..."""
INCIDENTS_KEPT: Final = HOURS_KEPT
"""... and incidents, once they have ended."""

DeletePortion = Callable[[Connection, str, int, int], int]
"""Forgets up to so many things of a cluster before a time (ms); how many it was."""


def _changes(connection: Connection, cluster: str, before: int, most: int) -> int:
    """Cells of windows that are not archived, which are those that something is wrong with."""
    t = tables.window_changes
    query = select(t.c.topic, t.c.window).where(
        t.c.cluster == cluster, t.c.changed_at < before, t.c.window < before
    )
    found = connection.execute(query.limit(min(most, WINDOWS_AT_ONCE))).all()
    for topic, window in found:
        for table in (tables.observations, tables.claims, t):
            here = table.c.cluster == cluster, table.c.topic == topic, table.c.window == window
            connection.execute(delete(table).where(*here))
    return len(found)


def _archive(connection: Connection, cluster: str, before: int, most: int) -> int:
    t = tables.archive
    old = t.c.cluster == cluster, t.c.packed_at < before, t.c.window < before
    return _delete(connection, t, old, most)


def _totals(connection: Connection, _cluster: str, before: int, most: int) -> int:
    t = tables.totals
    gone = 0
    for span, limit in ((WINDOW, before), (MINUTES_10, before), (HOUR, before - HOURS_KEPT)):
        gone += _delete(connection, t, (t.c.span == span, t.c.start < limit), most)
    return gone


def _verdicts(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """Those of windows that are good or accepted, of both sources, with their history. Sums of
    hours and windows keep what they added. What one source found wrong goes with the other's
    verdict that holds: left behind, it would hold itself."""
    t, past = tables.verdicts, tables.verdict_history
    other = t.alias("newer")
    key = ("edge", "topic", "window")
    newer = exists().where(*(other.c[k] == t.c[k] for k in key), other.c.judged_at >= before)
    found: list[tuple[str, str, int]] = []
    for edge in connection.execute(select(tables.watermarks.c.edge).distinct()).scalars().all():
        query = select(*(t.c[k] for k in key)).where(
            t.c.edge == edge,
            t.c.window < before,
            t.c.judged_at < before,
            or_(t.c.state.in_([str(state) for state in GOOD]), t.c.accepted_by != ""),
            effective(),
            ~newer,
        )
        some = connection.execute(query.limit(most - len(found)).with_for_update())
        found += [(*row,) for row in some]
    if found:
        note_change(connection, "retention")
    sums = ChangedVerdicts(connection)
    columns = [column for column in t.c if column.name not in ("reasons", "cells")]
    for edge, topic, window in found:
        place = {"edge": edge, "topic": topic, "window": window}
        here = [t.c[k] == value for k, value in place.items()]
        for row in connection.execute(select(*columns).where(*here)).mappings().all():
            sums.note((edge, topic, window), row["source"], dict(row), None)
        connection.execute(delete(t).where(*here))
        connection.execute(delete(past).where(*(past.c[k] == v for k, v in place.items())))
    sums.write(before, forgetting=True)
    return len(found)


def _ended(before: int) -> ColumnElement[bool]:
    """Of incidents: it ended long ago. One that is open never has."""
    t = tables.window_incidents.c
    return and_(t.closed_at > 0, t.last_change < before - INCIDENTS_KEPT, t.merged_into == 0)


def _incident_windows(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """Windows of incidents that ended long ago, and what was wrong with them."""
    t, w, k = tables.window_incidents.c, tables.incident_windows, tables.worst_cells
    # The edges are locked first, as by all who change incidents: it may open again meanwhile.
    for edge in sorted(connection.scalars(select(t.edge).where(_ended(before)).distinct())):
        bad = lock_edge(connection, edge)
        old = select(t.id).where(_ended(before), t.edge == edge)
        query = select(w.c.topic, w.c.window, w.c.state).where(w.c.incident.in_(old)).limit(most)
        found = connection.execute(query).all()
        for topic, window, _state in found:
            for table in (k, w):
                here = table.c.edge == edge, table.c.topic == topic, table.c.window == window
                connection.execute(delete(table).where(*here))
        if gone := sum(row.state not in GOOD for row in found):
            s = tables.topic_sums
            whole = update(s).where(s.c.edge == edge, s.c.topic == EDGE)
            connection.execute(whole.values(bad_windows=bad - gone))
        if found:
            return len(found)
    return 0


def _incidents(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """Incidents that ended long ago and have no windows any more, and those that went into them."""
    t, w = tables.window_incidents, tables.incident_windows
    other = t.alias("other")
    empty = and_(_ended(before), ~exists().where(w.c.incident == t.c.id))
    left = and_(t.c.merged_into != 0, ~exists().where(other.c.id == t.c.merged_into))
    return _delete(connection, t, (or_(empty, left),), most)


def _worst_cells(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """Those of windows that are in no incident: what a verdict said that never held."""
    k, w = tables.worst_cells, tables.incident_windows
    same = and_(*(k.c[name] == w.c[name] for name in ("edge", "topic", "window")))
    return _delete(connection, k, (k.c.until < before, ~exists().where(same)), most)


def _reporters(connection: Connection, cluster: str, before: int, most: int) -> int:
    t, topics = tables.reporters, tables.reporter_topics
    old = (
        t.c.cluster == cluster,
        or_(t.c.closed, RETIRED),
        t.c.last_heard < before,
        t.c.retired_at < before,
    )
    gone = _delete(connection, t, old, most)
    if gone:
        for table in (topics, tables.copied):
            known = exists().where(t.c.cluster == cluster, t.c.reporter == table.c.reporter)
            connection.execute(delete(table).where(table.c.cluster == cluster, ~known))
    return gone


def _by_time(
    table: Table, column: str, *conditions: ColumnElement[bool], longer: int = 0
) -> DeletePortion:
    def forget(connection: Connection, _cluster: str, before: int, most: int) -> int:
        return _delete(connection, table, (table.c[column] < before - longer, *conditions), most)

    return forget


def _of_span(span: int, longer: int) -> DeletePortion:
    """The sums of verdicts of which all windows are old."""
    t = tables.verdict_sums
    return _by_time(t, "start", t.c.span == span, longer=longer + span)


def _graphs(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """All but the one that held when the retention begins."""
    t = tables.graph
    held = select(func.max(t.c.valid_from)).where(t.c.valid_from <= before).scalar_subquery()
    return _delete(connection, t, (t.c.valid_from < held,), most)


PORTIONS: Final[tuple[DeletePortion, ...]] = (
    _changes,
    _archive,
    _totals,
    _verdicts,
    _incident_windows,
    _incidents,
    _worst_cells,
    _of_span(MINUTES_10, longer=0),
    _of_span(HOUR, longer=SUMS_KEPT),
    _by_time(tables.edge_sums, "window", longer=EDGE_SUMS_KEPT),
    _reporters,
    _by_time(tables.latency_sums, "start"),
    _by_time(tables.lateness, "day"),
    _by_time(tables.incidents, "at"),
    _by_time(tables.recounts, "asked_at", tables.recounts.c.job != SLOW),
    _by_time(tables.repairs, "at"),
    _by_time(tables.decisions, "at"),
    _by_time(tables.runs, "finished_at", tables.runs.c.finished_at > 0),
    _by_time(tables.alerts, "ends_at", tables.alerts.c.status == "resolved"),
    _graphs,
)
"""In this order; each until it finds no more."""


def _delete(
    connection: Connection, table: Table, conditions: Iterable[ColumnElement[bool]], most: int
) -> int:
    keys = list(table.primary_key.columns)
    some = select(*keys).where(*conditions).limit(most)
    where = keys[0].in_(some) if len(keys) == 1 else tuple_(*keys).in_(some)
    return connection.execute(delete(table).where(where)).rowcount
