"""Runs of jobs, repairs and what people decided, in one list; and how far tables are loaded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    cast,
    func,
    literal,
    select,
    tuple_,
    union_all,
)

from tallymark_audit.model.cells import LAKE
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import decisions, repairs, reporters, runs

JOB, DECISION = "job", "decision"
REPAIR = "repair"
COUNTS = ("windows", "claimed", "observed", "missing", "duplicated", "unclaimed", "explained")
"""What a job counts of each topic on each hop."""


@dataclass(frozen=True, slots=True)
class WhichRuns:
    """Which to read: those that began from ``start`` up to ``end`` (ms, excluded), only of this
    ``name`` (reconcile, repair, accept, ...) and with this ``outcome`` where they are given."""

    start: int
    end: int
    name: str = ""
    outcome: str = ""


def run_count(connection: Connection, which: WhichRuns) -> int:
    """How many there are."""
    found = _all().subquery()
    query = select(func.count()).select_from(found).where(*_conditions(found, which))
    return connection.scalar(query) or 0


def run_page(connection: Connection, which: WhichRuns, limit: int, offset: int = 0) -> list[Row]:
    """Some of them, the newest first, with ``kind`` (job or decision), ``id``, ``at``,
    ``finished_at`` (0: it goes on), ``name``, ``outcome``, ``who``, ``edge``, ``topic``,
    ``subject``, ``from_ms`` and ``to_ms`` (excluded; -1: not about windows) and ``note``."""
    found = _all().subquery()
    query = select(found).where(*_conditions(found, which))
    query = query.order_by(found.c.at.desc(), found.c.kind, found.c.id.desc())
    rows = connection.execute(query.limit(limit).offset(offset)).mappings()
    return [dict(row) for row in rows]


def run_names(connection: Connection) -> tuple[list[str], list[str]]:
    """The names and the outcomes that there are."""
    found = _all().subquery()
    names = select(found.c.name).distinct().order_by(found.c.name)
    outcomes = select(found.c.outcome).distinct().order_by(found.c.outcome)
    return list(connection.scalars(names)), [one for one in connection.scalars(outcomes) if one]


def job_run(connection: Connection, number: int) -> Row | None:
    """A run of a job with its detail; None: there is no such one."""
    query = select(runs).where(runs.c.id == number)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def judged_hops(run: Row) -> list[Row]:
    """What a run of a job says of each topic on each hop: ``edge``, ``topic``, ``state`` and
    :data:`COUNTS` (None: it does not say). What else the job has stored is left out."""
    detail = run["detail"]
    found = detail.get("edges") if isinstance(detail, dict) else None
    rows = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [
        {name: str(one.get(name, "")) for name in ("edge", "topic", "state")}
        | {name: one[name] if _is_count(one.get(name)) else None for name in COUNTS}
        for one in rows
    ]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def repaired_by(connection: Connection, decision: Row, limit: int, after: int = 0) -> list[Row]:
    """What became of the parts of a repair (a row of ``decisions``), the earliest first; behind the
    one of the number ``after``."""
    t = repairs.c
    query = select(repairs).where(t.at >= decision["at"], t.id > after)
    if decision["finished_at"]:
        query = query.where(t.at <= decision["finished_at"])
    for name in ("edge", "topic"):
        if decision[name]:
            query = query.where(t[name] == decision[name])
    if decision["window"] >= 0:
        query = query.where(t.window >= decision["window"])
    if decision["window_end"] >= 0:
        query = query.where(t.window < decision["window_end"])
    rows = connection.execute(query.order_by(t.id).limit(limit)).mappings()
    return [dict(row) for row in rows]


def loaded_tables(
    connection: Connection, limit: int, after: tuple[int, str, str] | None = None
) -> list[Row]:
    """The tables of the lake, that one first which was loaded longest ago: ``cluster``, ``table``,
    ``last_load`` (when its newest commit was made, ms) and ``server``, which made it. ``after``:
    behind this last load, cluster and table."""
    t = reporters.c
    query = select(
        t.cluster, t.application.label("table"), t.last_heard.label("last_load"), t.server
    ).where(t.tier == LAKE, ~RETIRED)
    keys = (t.last_heard, t.cluster, t.application)
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*map(literal, after)))
    rows = connection.execute(query.order_by(*keys).limit(limit)).mappings()
    return [dict(row) for row in rows]


@dataclass(frozen=True, slots=True)
class DecisionsAsked:
    """Which decisions: empty fields choose all. ``start`` and ``end`` (ms, excluded) bound when
    they were made; ``before`` is the number of the last one that the reader has."""

    actions: Collection[str] = ()
    edge: str = ""
    topic: str = ""
    window: int | None = None
    start: int | None = None
    end: int | None = None
    before: int | None = None


def decision_page(connection: Connection, asked: DecisionsAsked, limit: int = 50) -> list[Row]:
    """The decisions, newest first."""
    query = select(decisions).where(*_decided(asked)).order_by(decisions.c.id.desc())
    return [dict(row) for row in connection.execute(query.limit(limit)).mappings()]


def decision(connection: Connection, number: int) -> Row | None:
    """One of them; None: there is no such one."""
    query = select(decisions).where(decisions.c.id == number)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def _decided(asked: DecisionsAsked) -> list[ColumnElement[bool]]:
    table = decisions.c
    found: list[ColumnElement[bool]] = []
    if asked.actions:
        found.append(table.action.in_(sorted(asked.actions)))
    if asked.edge:
        found.append(table.edge == asked.edge)
    if asked.topic:
        found.append(table.topic == asked.topic)
    if asked.window is not None:
        found += [table.window <= asked.window, table.window_end > asked.window]
    if asked.start is not None:
        found.append(table.at >= asked.start)
    if asked.end is not None:
        found.append(table.at < asked.end)
    if asked.before is not None:
        found.append(table.id < asked.before)
    return found


def _all() -> Select[tuple[object, ...]]:
    job = select(
        literal(JOB).label("kind"),
        runs.c.id,
        runs.c.started_at.label("at"),
        runs.c.finished_at,
        runs.c.job.label("name"),
        runs.c.outcome,
        literal("").label("who"),
        literal("").label("edge"),
        literal("").label("topic"),
        literal("").label("subject"),
        runs.c.from_ms,
        runs.c.to_ms,
        cast(literal(""), String).label("note"),
    )
    decided = select(
        literal(DECISION).label("kind"),
        decisions.c.id,
        decisions.c.at,
        decisions.c.finished_at,
        decisions.c.action.label("name"),
        decisions.c.outcome,
        decisions.c.who,
        decisions.c.edge,
        decisions.c.topic,
        decisions.c.subject,
        decisions.c.window.label("from_ms"),
        decisions.c.window_end.label("to_ms"),
        decisions.c.note,
    )
    return select(union_all(job, decided).subquery())


def _conditions(found: FromClause, which: WhichRuns) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [found.c.at >= which.start, found.c.at < which.end]
    if which.name:
        conditions.append(found.c.name == which.name)
    if which.outcome:
        conditions.append(found.c.outcome == which.outcome)
    return conditions
