"""What dashboards and the command line read. Every function takes a snapshot of
:meth:`tallymark_audit.store.Store.read` and returns plain rows; nothing here asks a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, or_, select, tuple_

from tallymark_audit.judge.skewed import SKEWED
from tallymark_audit.judge.verdicts import UNDECIDED
from tallymark_audit.model.cells import EdgeTopic
from tallymark_audit.model.time_format import LARGEST
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.counted.totals import DAY
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, effective
from tallymark_audit.store.reading.paging import watermarks_of
from tallymark_audit.store.reading.sums import period_sums, summed, sums_of
from tallymark_audit.store.schema.rows import Row, holes_of
from tallymark_audit.store.schema.summed_tables import IN_STATE
from tallymark_audit.store.schema.tables import (
    SUMS,
    collectors,
    incidents,
    progress,
    repairs,
    reporters,
    runs,
    topic_sums,
    verdicts,
    watermarks,
)

LATEST = LARGEST - LARGEST % DAY
"""Later than all windows."""
MOST_SKEWED = 1_000
"""Windows of the future that are looked at for whose clock it is."""
FEW = 1_000
"""Places whose watermarks are read one by one."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic on one edge. ``states``: how many windows are in each state. The sums are in
    messages over all windows, and ``claimed = observed + pending + missing + explained``
    (:class:`.sums.Sums`). ``through`` and ``horizon`` are ms, -1 without a watermark. ``skewed``:
    whose clock is ahead and by how much, where windows lie in the future."""

    edge: str
    topic: str
    states: dict[str, int]
    claimed: int
    observed: int
    missing: int
    duplicates: int
    unclaimed: int
    explained: int
    first_window: int
    last_window: int
    through: int = -1
    horizon: int = -1
    holes: tuple[tuple[int, str, bool], ...] = ()
    skewed: str = ""
    pending: int = 0
    excused: int = 0


def overview(
    connection: Connection,
    since: int | None = None,
    now: int | None = None,
    after: EdgeTopic | None = None,
    limit: int | None = None,
) -> list[TopicSummary]:
    """Every topic on every edge that has a verdict, of windows from ``since`` (ms) on: of all that
    are kept, else from the sums of time. By edge and topic; ``limit`` of those
    behind the place ``after``. ``now`` (ms): also find windows that begin later, and the server
    whose clock stamped them."""
    query = _kept() if since is None else _from(since)
    keys = query.selected_columns.edge, query.selected_columns.topic
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*map(literal, after)))
    rows = _rows(connection, query.order_by(*keys).limit(limit))
    marks = _marks(connection, rows)
    skewed = skewed_clocks(connection, now) if now is not None else {}
    places = [(row["edge"], row["topic"]) for row in rows]
    return [
        _summary(row, marks.get(place), skewed.get(place, ""))
        for place, row in zip(places, rows, strict=True)
    ]


def _kept() -> Select[Any]:
    t = topic_sums.c
    judged = or_(*(t[name] > 0 for name in IN_STATE.values()))
    return select(topic_sums).where(t.topic != "", judged)


def _marks(connection: Connection, rows: list[Row]) -> dict[EdgeTopic, Row]:
    """The watermarks of these places; of many at once, rather all."""
    if len(rows) <= FEW:
        found = watermarks_of(connection, [(row["edge"], row["topic"]) for row in rows])
    else:
        found = _rows(connection, select(watermarks))
    return {(row["edge"], row["topic"]): row for row in found}


def _from(since: int) -> Select[Any]:
    v, t = verdicts.c, topic_sums.c
    c = period_sums(since, LATEST).c
    query = select(c.edge, c.topic, *summed(c)).group_by(c.edge, c.topic)
    some = query.cte("some")
    first = (
        select(func.min(v.window))
        .where(v.edge == some.c.edge, v.topic == some.c.topic, v.window >= since)
        .scalar_subquery()
    )
    # The last one of all is one of these.
    found = func.coalesce(first, since).label("first_window")
    columns: list[ColumnElement[Any]] = [*some.c, found, t.last_window]
    return select(*columns).join(topic_sums, and_(t.edge == some.c.edge, t.topic == some.c.topic))


def skewed_clocks(connection: Connection, now: int) -> dict[tuple[str, str], str]:
    """By edge and topic, the clock that is ahead according to the newest window in the future."""
    columns = [verdicts.c[name] for name in ("edge", "topic", "reasons")]
    query = select(*columns).where(verdicts.c.window > now, effective())
    newest = _rows(connection, query.order_by(verdicts.c.window.desc()).limit(MOST_SKEWED))
    return {
        (row["edge"], row["topic"]): reason
        for row in reversed(newest)
        for reason in row["reasons"]
        if reason.startswith(SKEWED)
    }


def windows(
    connection: Connection,
    edge: str | None = None,
    topic: str | None = None,
    start: int | None = None,
    end: int | None = None,
    states: Sequence[str] = (),
    limit: int = 1000,
    *,
    cells: bool = True,
) -> list[Row]:
    """Verdict rows, the one that holds for each window, newest window first. ``start`` included,
    ``end`` excluded (ms). Without their ``cells`` they are short."""
    columns = [one for one in verdicts.c if cells or one.name != "cells"]
    query = select(*columns).where(effective())
    for column, value in ((verdicts.c.edge, edge), (verdicts.c.topic, topic)):
        if value is not None:
            query = query.where(column == value)
    if start is not None:
        query = query.where(verdicts.c.window >= start)
    if end is not None:
        query = query.where(verdicts.c.window < end)
    if states:
        query = query.where(verdicts.c.state.in_(states))
    order = (verdicts.c.window.desc(), verdicts.c.edge, verdicts.c.topic)
    return _rows(connection, query.order_by(*order).limit(limit))


def reporters_named(connection: Connection, reporter: str) -> list[Row]:
    """A reporter, on every cluster that knows it."""
    query = select(reporters).where(reporters.c.reporter == reporter)
    return _rows(connection, query.order_by(reporters.c.cluster))


def all_reporters(
    connection: Connection, live_only: bool = False, limit: int | None = None
) -> list[Row]:
    """All reporters, or so many, those of the newest reports first in each cluster; with
    ``live_only`` those that have neither closed nor been retired."""
    query = select(reporters).order_by(reporters.c.cluster, reporters.c.last_heard.desc())
    if live_only:
        query = query.where(reporters.c.closed.is_(False), ~RETIRED)
    return _rows(connection, query.limit(limit))


def disagreements(
    connection: Connection, limit: int = 100, start: int | None = None, end: int | None = None
) -> list[Row]:
    """Windows on which the two independent counts differ, though Spark looked after the
    collector's last change: a finding about the audit itself. Newest first; those that start from
    ``start`` up to ``end`` (ms, excluded)."""
    spark, query = two_counts()
    if start is not None:
        query = query.where(spark.c.window >= start)
    if end is not None:
        query = query.where(spark.c.window < end)
    return _rows(connection, query.order_by(spark.c.window.desc()).limit(limit))


def disagreements_among(
    connection: Connection, windows: Mapping[EdgeTopic, Collection[int]]
) -> list[Row]:
    """All :func:`disagreements` about these windows (starts, ms), however many and however old.
    Newest first."""
    found: list[Row] = []
    for (edge, topic), some in windows.items():
        if some:
            spark, query = two_counts()
            mine = spark.c.edge == edge, spark.c.topic == topic
            between = spark.c.window.between(min(some), max(some))
            wanted = frozenset(some)
            rows = _rows(connection, query.where(*mine, between))
            found += [row for row in rows if row["window"] in wanted]
    return sorted(found, key=lambda row: -row["window"])


def two_counts() -> tuple[Any, Select[Any]]:
    """Spark's side, and the pairs of verdicts of one window that differ, as a query."""
    spark, other = verdicts.alias("spark"), verdicts.alias("collector")
    same = and_(
        spark.c.edge == other.c.edge,
        spark.c.topic == other.c.topic,
        spark.c.window == other.c.window,
    )
    undecided = [str(state) for state in UNDECIDED]
    differs = [spark.c[name] != other.c[name] for name in ("state", "missing", "duplicates")]
    columns = [
        table.c[name].label(f"{source}_{name}")
        for source, table in ((SPARK, spark), (COLLECTOR, other))
        for name in ("state", "judged_at", *SUMS)
    ]
    query = (
        select(spark.c.edge, spark.c.topic, spark.c.window, *columns)
        .join(other, same)
        .where(
            spark.c.source == SPARK,
            other.c.source == COLLECTOR,
            spark.c.judged_at >= other.c.judged_at,
            spark.c.state.not_in(undecided),
            other.c.state.not_in(undecided),
            or_(*differs),
        )
    )
    return spark, query


def all_incidents(connection: Connection, limit: int = 200) -> list[Row]:
    """What happened to the logs: truncations, expired offsets, re-created topics, bad events."""
    return _rows(connection, select(incidents).order_by(incidents.c.id.desc()).limit(limit))


def all_progress(connection: Connection) -> list[Row]:
    """How far each partition is counted."""
    keys = (progress.c.cluster, progress.c.topic, progress.c.partition)
    return _rows(connection, select(progress).order_by(*keys))


def all_collectors(connection: Connection) -> list[Row]:
    """The collector in charge of each cluster, and when it last committed."""
    return _rows(connection, select(collectors).order_by(collectors.c.cluster))


def all_runs(connection: Connection, limit: int = 50) -> list[Row]:
    """Runs of jobs, newest first."""
    return _rows(connection, select(runs).order_by(runs.c.id.desc()).limit(limit))


def all_repairs(connection: Connection, limit: int = 200) -> list[Row]:
    """Repairs, newest first."""
    return _rows(connection, select(repairs).order_by(repairs.c.id.desc()).limit(limit))


def _summary(row: Row, mark: Row | None, skewed: str) -> TopicSummary:
    sums = sums_of(row)
    return TopicSummary(
        edge=row["edge"],
        topic=row["topic"],
        states=dict(sums.states),
        first_window=row["first_window"],
        last_window=row["last_window"],
        through=mark["through"] if mark else -1,
        horizon=mark["horizon"] if mark else -1,
        holes=tuple(holes_of(mark)) if mark else (),
        skewed=skewed,
        **{name: getattr(sums, name) for name in (*SUMS, "pending", "excused")},
    )


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]  # twice as fast as by mappings()
