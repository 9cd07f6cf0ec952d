"""Make the sums and the incidents anew from the verdicts and their history: for a store of an older
version, or one that was filled in some other way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, delete, func, literal, select

from tallymark_audit.judge.incidents import PASSING, Change
from tallymark_audit.judge.states import GOOD
from tallymark_audit.model.cells import EdgeTopic
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.counted.totals import HOUR
from tallymark_audit.store.judged.effective import effective, effective_of
from tallymark_audit.store.judged.sums import EDGE, SPANS, WINDOW_MS
from tallymark_audit.store.judged.window_incidents import FAR, follow, standing_of
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
from tallymark_audit.store.schema.upsert import add_up_from, insert_from, upsert

ACCEPTED_BY: Final = "accepted by "
"""How the first reason of a revision begins that a person made."""
NO_LONGER: Final = "no longer accepted"
_BAD: Final = verdicts.c.state.not_in([str(state) for state in (*GOOD, *PASSING)])
_WAS_BAD: Final = verdict_history.c.state.not_in([str(state) for state in (*GOOD, *PASSING)])


Tell: TypeAlias = Callable[[str, int, int], object]
"""``tell(what, done, of)``: so far it is."""
AT_ONCE: Final = 50_000
"""Verdicts of one statement, about: so many rows are sorted in memory, and then the progress is
reported."""
_PRESENT: Final = [column for column in verdicts.c if column.name not in ("cells", "reasons")]
"""Without what may be a megabyte of a window."""


def _silently(_what: str, _done: int, _of: int) -> None:
    """Report no progress."""


def fill(connection: Connection, tell: Tell = _silently) -> None:
    """Sums and incidents, of all that the store holds."""
    fill_sums(connection, tell)
    fill_incidents(connection, tell=tell)


def fill_sums(connection: Connection, tell: Tell = _silently) -> None:
    """The sums of the effective verdicts. What was deleted with its age is not in them."""
    for table in (verdict_sums, edge_sums, topic_sums):
        connection.execute(delete(table))
    portions = list(_portions(connection))
    total, done = sum(one.verdicts for one in portions), 0
    for portion in portions:
        tell("verdicts summed up", done, total)
        _sum_up(connection, portion)
        done += portion.verdicts
    t = topic_sums.c
    whole = [func.sum(t[name]).label(name) for name in SUMMED]
    query = select(t.edge, *whole, *_ends(t.first_window, t.last_window)).group_by(t.edge)
    rows = connection.execute(query).mappings().all()
    upsert(connection, topic_sums, [{**_numbers(row), "topic": EDGE} for row in rows])


class _Portion(NamedTuple):
    """The verdicts of an edge on the topics from ``first`` to ``last``, in the store's order."""

    edge: str
    first: str
    last: str
    verdicts: int


def _portions(connection: Connection) -> Iterator[_Portion]:
    v = verdicts.c
    query = select(v.edge, v.topic, func.count()).group_by(v.edge, v.topic)
    last: _Portion | None = None
    for edge, topic, count in connection.execute(query.order_by(v.edge, v.topic)).all():
        if last and last.edge == edge and last.verdicts + count <= AT_ONCE:
            last = last._replace(last=topic, verdicts=last.verdicts + count)
            continue
        if last:
            yield last
        last = _Portion(edge, topic, topic, count)
    if last:
        yield last


def _sum_up(connection: Connection, portion: _Portion) -> None:
    v = verdicts.c
    within = v.edge == portion.edge, v.topic >= portion.first, v.topic <= portion.last
    held = select(v.edge, v.topic, v.window, *adding_columns(verdicts)).where(*within, effective())
    e = held.cte("held").c
    sums = [func.sum(e[name]).label(name) for name in SUMMED]
    for span in SPANS:
        # Databases round towards 0, and there are windows before it.
        start = (e.window - (e.window % span + span) % span).label("start")
        of_span = select(e.edge, e.topic, literal(span).label("span"), start, *sums)
        insert_from(connection, verdict_sums, of_span.group_by(e.edge, e.topic, start))
    # The other topics of the edge are in other portions.
    of_edge = select(e.edge, e.window, *sums).group_by(e.edge, e.window)
    add_up_from(connection, edge_sums, of_edge)
    of_topic = select(e.edge, e.topic, *sums, *_ends(e.window, e.window))
    insert_from(connection, topic_sums, of_topic.group_by(e.edge, e.topic))


def _ends(first: Any, last: Any) -> tuple[Any, ...]:
    return (
        func.min(first).label("first_window"),
        func.max(last).label("last_window"),
        literal(0).label("bad_windows"),
    )


def fill_incidents(
    connection: Connection, window_ms: int | None = None, tell: Tell = _silently
) -> None:
    """The incidents, from every revision that is kept. ``window_ms``: how long windows are, else
    that is found out."""
    for table in (incident_windows, window_incidents):
        connection.execute(delete(table))
    window_ms = window_ms or _window_ms(connection)
    bad: dict[str, int] = {}
    places = _bad_places(connection)
    for number, (edge, topic) in enumerate(places):
        tell("topics with incidents", number, len(places))
        changes = _changes(connection, edge, topic)
        bad[edge] = bad.get(edge, 0)
        for some in chunks(changes):
            bad[edge] += follow(connection, edge, topic, some, window_ms)
    rows = [
        {"edge": edge, "topic": EDGE, "bad_windows": number, "first_window": FAR,
         "last_window": -FAR, **NOTHING}
        for edge, number in sorted(bad.items())
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


def _numbers(row: Any) -> Row:
    """Sums of PostgreSQL are decimals."""
    return {name: value if name == "edge" else int(value) for name, value in row.items()}


def _window_ms(connection: Connection) -> int:
    """The length of windows: what all of their starts can be divided by, an hour at most."""
    starts = connection.scalars(select(edge_sums.c.window).distinct().limit(10_000))
    found = math.gcd(HOUR, *starts)
    return found if found < HOUR else WINDOW_MS


def _bad_places(connection: Connection) -> list[EdgeTopic]:
    v, past = verdicts.c, verdict_history.c
    now = select(v.edge, v.topic).where(_BAD)
    query = now.union(select(past.edge, past.topic).where(_WAS_BAD))
    return sorted((edge, topic) for edge, topic in connection.execute(query))


def _changes(connection: Connection, edge: str, topic: str) -> list[Change]:
    """How the windows that were ever bad stood, one after the other, by the verdict that held."""
    v, past = verdicts.c, verdict_history.c
    bad_now = select(v.window).where(v.edge == edge, v.topic == topic, _BAD)
    bad_once = select(past.window).where(past.edge == edge, past.topic == topic, _WAS_BAD)
    windows = sorted({*connection.scalars(bad_now), *connection.scalars(bad_once)})
    found: list[Change] = []
    for some in chunks(windows):
        query = select(verdict_history).where(
            past.edge == edge, past.topic == topic, past.window.in_(some)
        )
        order = (past.window, past.judged_at, past.source, past.revision)
        revisions = connection.execute(query.order_by(*order)).mappings()
        query = select(*_PRESENT).where(v.edge == edge, v.topic == topic, v.window.in_(some))
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
