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
)

from tallymark_audit.judge.states import GOOD
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.counted.recounts import SLOW
from tallymark_audit.store.counted.totals import DAY, HOUR, MINUTES_10, WINDOW
from tallymark_audit.store.judged.sums import ChangedVerdicts
from tallymark_audit.store.judged.verdict_changes import note_change
from tallymark_audit.store.schema import tables
from tallymark_audit.store.schema.rows import Row

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
    """Good ones and accepted ones, with their history. Sums of hours and windows keep what they
    added."""
    t, past = tables.verdicts, tables.verdict_history
    keys = [t.c[name] for name in ("edge", "topic", "window", "source")]
    columns = [column for column in t.c if column.name not in ("reasons", "cells")]
    found: list[Row] = []
    for edge in connection.execute(select(tables.watermarks.c.edge).distinct()).scalars().all():
        query = select(*columns).where(
            t.c.edge == edge,
            t.c.window < before,
            t.c.judged_at < before,
            or_(t.c.state.in_([str(state) for state in GOOD]), t.c.accepted_by != ""),
        )
        some = connection.execute(query.limit(most - len(found)).with_for_update()).mappings()
        found += map(dict, some)
    if found:
        note_change(connection, "retention")
    sums = ChangedVerdicts(connection)
    for row in found:
        for table in (past, t):
            same = (table.c[column.name] == row[column.name] for column in keys)
            connection.execute(delete(table).where(*same))
        sums.note((row["edge"], row["topic"], row["window"]), row["source"], row, None)
    sums.write(before, forgetting=True)
    return len(found)


def _incidents(connection: Connection, _cluster: str, before: int, most: int) -> int:
    """Incidents that ended long ago, with their windows."""
    t, w = tables.window_incidents, tables.incident_windows
    old = select(t.c.id).where(t.c.closed_at > 0, t.c.last_change < before - INCIDENTS_KEPT)
    found = list(connection.scalars(old.limit(most)))
    if found:
        k = tables.worst_cells
        same = and_(*(k.c[name] == w.c[name] for name in ("edge", "topic", "window")))
        connection.execute(delete(k).where(exists().where(same, w.c.incident.in_(found))))
        connection.execute(delete(w).where(w.c.incident.in_(found)))
        connection.execute(delete(t).where(or_(t.c.id.in_(found), t.c.merged_into.in_(found))))
    return len(found)


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
    _incidents,
    _by_time(tables.verdict_sums, "start", tables.verdict_sums.c.span == MINUTES_10),
    _by_time(tables.verdict_sums, "start", longer=SUMS_KEPT),
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
