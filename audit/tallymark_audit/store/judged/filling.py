"""Make the sums and the incidents anew from the verdicts and their history: for a store of an older
version, or one that was filled in some other way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, literal, select

from tallymark_audit.judge.incidents import PASSING, Change
from tallymark_audit.judge.states import GOOD
from tallymark_audit.model.cells import EdgeTopic
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.counted.totals import HOUR
from tallymark_audit.store.judged.effective import effective, effective_of
from tallymark_audit.store.judged.sums import EDGE, FAR, SPANS, WINDOW_MS
from tallymark_audit.store.judged.window_incidents import follow, standing_of
from tallymark_audit.store.schema.balance import NOTHING, adding_columns
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.summed_tables import SUMMED
from tallymark_audit.store.schema.tables import (
    edge_sums,
    incident_windows,
    topic_sums,
    verdict_history,
    verdict_sums,
    verdicts,
    window_incidents,
)
from tallymark_audit.store.schema.upsert import upsert

ACCEPTED_BY: Final = "accepted by "
"""How the first reason of a revision begins that a person made."""
NO_LONGER: Final = "no longer accepted"
_ILL: Final = verdicts.c.state.not_in([str(state) for state in (*GOOD, *PASSING)])
_PAST_ILL: Final = verdict_history.c.state.not_in([str(state) for state in (*GOOD, *PASSING)])


def fill(connection: Connection) -> None:
    """Sums and incidents, of all that the store holds."""
    fill_sums(connection)
    fill_incidents(connection)


def fill_sums(connection: Connection) -> None:
    """The sums of the effective verdicts. What was deleted with its age is not in them."""
    for table in (verdict_sums, edge_sums, topic_sums):
        connection.execute(delete(table))
    v = verdicts.c
    effective_ones = (
        select(v.edge, v.topic, v.window, *adding_columns(verdicts)).where(effective()).cte("held")
    )
    e = effective_ones.c
    sums = [func.sum(e[name]).label(name) for name in SUMMED]
    for span in SPANS:
        start = (e.window - e.window % span).label("start")
        of_span = select(e.edge, e.topic, literal(span).label("span"), start, *sums)
        _insert(connection, verdict_sums, of_span.group_by(e.edge, e.topic, start))
    _insert(connection, edge_sums, select(e.edge, e.window, *sums).group_by(e.edge, e.window))
    ends = (
        func.min(e.window).label("first_window"),
        func.max(e.window).label("last_window"),
        literal(0).label("bad_windows"),
    )
    _insert(
        connection,
        topic_sums,
        select(e.edge, e.topic, *sums, *ends).group_by(e.edge, e.topic),
    )
    t = topic_sums.c
    ends = (
        func.min(t.first_window).label("first_window"),
        func.max(t.last_window).label("last_window"),
        literal(0).label("bad_windows"),
    )
    whole = [func.sum(t[name]).label(name) for name in SUMMED]
    rows = connection.execute(select(t.edge, *whole, *ends).group_by(t.edge)).mappings().all()
    upsert(connection, topic_sums, [{**_numbers(row), "topic": EDGE} for row in rows])


def fill_incidents(connection: Connection, window_ms: int | None = None) -> None:
    """The incidents, from every revision that is kept. ``window_ms``: how long windows are, else
    that is found out."""
    for table in (incident_windows, window_incidents):
        connection.execute(delete(table))
    window_ms = window_ms or _window_ms(connection)
    ill: dict[str, int] = {}
    for edge, topic in _ill_places(connection):
        changes = _changes(connection, edge, topic)
        ill[edge] = ill.get(edge, 0)
        for some in chunks(changes):
            ill[edge] += follow(connection, edge, topic, some, window_ms)
    rows = [
        {"edge": edge, "topic": EDGE, "bad_windows": number, "first_window": FAR,
         "last_window": -FAR, **NOTHING}
        for edge, number in sorted(ill.items())
    ]  # fmt: skip
    for row in rows:
        t = topic_sums
        done = connection.execute(
            t.update()
            .where(t.c.edge == row["edge"], t.c.topic == EDGE)
            .values(bad_windows=row["bad_windows"])
        )
        if not done.rowcount:
            upsert(connection, t, [row])


def _insert(connection: Connection, table: Table, query: Any) -> None:
    names = [column.name for column in query.selected_columns]
    connection.execute(table.insert().from_select(names, query, include_defaults=False))


def _numbers(row: Any) -> Row:
    """Sums of PostgreSQL are decimals."""
    return {name: value if name == "edge" else int(value) for name, value in row.items()}


def _window_ms(connection: Connection) -> int:
    """The length of windows: what all of their starts can be divided by, an hour at most."""
    starts = connection.scalars(select(edge_sums.c.window).distinct().limit(10_000))
    found = math.gcd(HOUR, *starts)
    return found if found < HOUR else WINDOW_MS


def _ill_places(connection: Connection) -> list[EdgeTopic]:
    v, past = verdicts.c, verdict_history.c
    now = select(v.edge, v.topic).where(_ILL)
    query = now.union(select(past.edge, past.topic).where(_PAST_ILL))
    return sorted((edge, topic) for edge, topic in connection.execute(query))


def _changes(connection: Connection, edge: str, topic: str) -> list[Change]:
    """How the windows that were ever bad stood, one after the other, by the verdict that held."""
    v, past = verdicts.c, verdict_history.c
    ill_now = select(v.window).where(v.edge == edge, v.topic == topic, _ILL)
    ill_once = select(past.window).where(past.edge == edge, past.topic == topic, _PAST_ILL)
    windows = sorted({*connection.scalars(ill_now), *connection.scalars(ill_once)})
    found: list[Change] = []
    for some in chunks(windows):
        query = select(verdict_history).where(
            past.edge == edge, past.topic == topic, past.window.in_(some)
        )
        order = (past.window, past.judged_at, past.source, past.revision)
        revisions = connection.execute(query.order_by(*order)).mappings()
        query = select(verdicts).where(v.edge == edge, v.topic == topic, v.window.in_(some))
        present: dict[int, list[Row]] = {}
        for row in connection.execute(query).mappings():
            present.setdefault(row["window"], []).append(dict(row))
        by_window = {at: list(rows) for at, rows in groupby(revisions, lambda row: row["window"])}
        for window in some:
            found += _of_window(window, by_window.get(window, ()), present.get(window, ()))
    return sorted(found, key=lambda change: (change.at, change.window))


def _of_window(window: int, revisions: Iterable[Any], present: Iterable[Row]) -> Iterator[Change]:
    rows: dict[str, Row | None] = {}
    last = 0
    for row in revisions:
        before = rows.get(row["source"])
        rows[row["source"]] = {**row, "accepted_by": _accepted_by(row, before)}
        held = effective_of(rows)
        last = max(last, row["judged_at"])
        if held is not None:
            yield Change(window, standing_of(held), last)
    # What is known in the end counts, and a revision may be gone.
    held = effective_of({row["source"]: row for row in present})
    if held is not None:
        yield Change(window, standing_of(held), max(last, held["judged_at"]))


def _accepted_by(row: Any, before: Row | None) -> str:
    """The reasons of the revision that it made name an acceptance. It holds until more is wrong."""
    said = row["reasons"][0] if isinstance(row["reasons"], list) and row["reasons"] else ""
    if str(said).startswith(ACCEPTED_BY):
        return "someone"
    if before is None or str(said).startswith(NO_LONGER):
        return ""
    wrong = ("missing", "duplicates", "unclaimed")
    return "" if any(row[name] > before[name] for name in wrong) else before["accepted_by"]
