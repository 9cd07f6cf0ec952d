"""What dashboards and the command line read. Every function takes a snapshot of
:meth:`tallymark_audit.store.Store.read` and returns plain rows; nothing here asks a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select

from tallymark_audit.judge.skewed import SKEWED
from tallymark_audit.judge.verdicts import UNDECIDED
from tallymark_audit.model.cells import EdgeTopic
from tallymark_audit.store.judged.verdicts import COLLECTOR, SPARK, effective
from tallymark_audit.store.schema.rows import Row, holes_of
from tallymark_audit.store.schema.tables import (
    SUMS,
    collectors,
    incidents,
    progress,
    repairs,
    reporters,
    runs,
    verdicts,
    watermarks,
)

WRONG = ("missing", "duplicates", "unclaimed")
MOST_SKEWED = 1_000
"""Windows of the future that are looked at for whose clock it is."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic on one edge. ``states``: how many windows are in each state. The sums are in
    messages over all windows, those of what is wrong over the decided ones. ``through`` and
    ``horizon`` are ms, -1 without a watermark. ``skewed``: whose clock is ahead and by how much,
    where windows lie in the future."""

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


def overview(
    connection: Connection, since: int | None = None, now: int | None = None
) -> list[TopicSummary]:
    """Every topic on every edge that has a verdict, of windows from ``since`` (ms) on. ``now``
    (ms): also find windows that begin later, and the server whose clock stamped them."""
    query = (
        select(
            verdicts.c.edge,
            verdicts.c.topic,
            verdicts.c.state,
            func.count().label("windows"),
            func.min(verdicts.c.window).label("first_window"),
            func.max(verdicts.c.window).label("last_window"),
            *[func.sum(verdicts.c[name]).label(name) for name in SUMS],
        )
        .where(effective())
        .group_by(verdicts.c.edge, verdicts.c.topic, verdicts.c.state)
    )
    if since is not None:
        query = query.where(verdicts.c.window >= since)
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in _rows(connection, query):
        grouped.setdefault((row["edge"], row["topic"]), []).append(row)
    marks = {(row["edge"], row["topic"]): row for row in _rows(connection, select(watermarks))}
    skewed = _skewed(connection, now) if now is not None else {}
    return [
        _summary(edge, topic, rows, marks.get((edge, topic)), skewed.get((edge, topic), ""))
        for (edge, topic), rows in sorted(grouped.items())
    ]


def _skewed(connection: Connection, now: int) -> dict[tuple[str, str], str]:
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


def all_reporters(
    connection: Connection, live_only: bool = False, limit: int | None = None
) -> list[Row]:
    """All reporters, or so many, those of the newest reports first in each cluster; with
    ``live_only`` those that have neither closed nor been retired."""
    query = select(reporters).order_by(reporters.c.cluster, reporters.c.last_heard.desc())
    if live_only:
        query = query.where(reporters.c.closed.is_(False), reporters.c.retired_at == 0)
    return _rows(connection, query.limit(limit))


def disagreements(connection: Connection, limit: int = 100) -> list[Row]:
    """Windows on which the two independent counts differ, though Spark looked after the
    collector's last change: a finding about the audit itself. Newest first."""
    spark, query = _two_counts()
    return _rows(connection, query.order_by(spark.c.window.desc()).limit(limit))


def disagreements_among(
    connection: Connection, windows: Mapping[EdgeTopic, Collection[int]]
) -> list[Row]:
    """All :func:`disagreements` about these windows (starts, ms), however many and however old.
    Newest first."""
    found: list[Row] = []
    for (edge, topic), some in windows.items():
        if some:
            spark, query = _two_counts()
            mine = spark.c.edge == edge, spark.c.topic == topic
            between = spark.c.window.between(min(some), max(some))
            wanted = frozenset(some)
            rows = _rows(connection, query.where(*mine, between))
            found += [row for row in rows if row["window"] in wanted]
    return sorted(found, key=lambda row: -row["window"])


def _two_counts() -> tuple[Any, Select[Any]]:
    """Spark's side, and the pairs of verdicts of one window that differ."""
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


def _summary(edge: str, topic: str, rows: list[Row], mark: Row | None, skewed: str) -> TopicSummary:
    # An open window has records that are not claimed or not mirrored yet: nothing is wrong with it.
    decided = [row for row in rows if row["state"] not in UNDECIDED]
    sums = {
        name: sum(int(row[name]) for row in (decided if name in WRONG else rows)) for name in SUMS
    }
    return TopicSummary(
        edge=edge,
        topic=topic,
        states={row["state"]: row["windows"] for row in rows},
        first_window=min(row["first_window"] for row in rows),
        last_window=max(row["last_window"] for row in rows),
        through=mark["through"] if mark else -1,
        horizon=mark["horizon"] if mark else -1,
        holes=tuple(holes_of(mark)) if mark else (),
        skewed=skewed,
        **sums,
    )


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]  # twice as fast as by mappings()
