"""Pages of what happened and what works: log events, runs, repairs, partitions that are counted,
disagreements, consumer groups. As in :mod:`.paging`, each page begins after the last key of the one
before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
)

from tallymark_audit.judge.states import UNDECIDED, State
from tallymark_audit.model.edges import consumer_edge
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.reading import paging, queries
from tallymark_audit.store.reading.neighbours import edges_known
from tallymark_audit.store.schema.rows import Row, holes_of
from tallymark_audit.store.schema.tables import (
    incidents,
    progress,
    repairs,
    reporter_topics,
    reporters,
    runs,
    verdicts,
)

_SUSPECT: Final = tuple(
    str(one) for one in State if one not in UNDECIDED and one is not State.COMPLETE
)


class WhichRecords(NamedTuple):
    """Which rows; None or empty is all. ``start`` included, ``end`` excluded (ms)."""

    start: int | None = None
    end: int | None = None
    cluster: str | None = None
    topic: str | None = None
    edge: str | None = None
    kinds: Sequence[str] = ()


def log_event_page(
    connection: Connection, which: WhichRecords, after: int | None, limit: int
) -> list[Row]:
    """What happened to logs (truncated, expired, recreated, gaps, bad events), newest first;
    ``after``: the id of the last one before."""
    t = incidents.c
    query = _where(select(incidents), which, t.at, cluster=t.cluster, topic=t.topic, kinds=t.kind)
    return _newest(connection, query, t.id, after, limit)


def job_run_page(
    connection: Connection, which: WhichRecords, after: int | None, limit: int
) -> list[Row]:
    """Runs of jobs, newest first; ``kinds``: the jobs, times are those of the start."""
    t = runs.c
    query = _where(select(runs), which, t.started_at, kinds=t.job)
    return _newest(connection, query, t.id, after, limit)


def repair_page(
    connection: Connection, which: WhichRecords, after: int | None, limit: int
) -> list[Row]:
    """What repairs did, newest first; ``kinds``: the outcomes."""
    t = repairs.c
    query = _where(select(repairs), which, t.at, topic=t.topic, edge=t.edge, kinds=t.outcome)
    return _newest(connection, query, t.id, after, limit)


def progress_page(
    connection: Connection,
    cluster: str | None,
    topic: str | None,
    after: tuple[str, str, int] | None,
    limit: int,
) -> list[Row]:
    """How far each partition is counted, by cluster, topic and partition; ``behind``: offsets that
    are not counted yet."""
    t = progress.c
    behind = case((t.high_watermark > t.next_offset, t.high_watermark - t.next_offset), else_=0)
    query = select(progress, behind.label("behind"))
    which = WhichRecords(cluster=cluster, topic=topic)
    query = _where(query.where(is_there(progress)), which, cluster=t.cluster, topic=t.topic)
    keys = (t.cluster, t.topic, t.partition)
    return _after(connection, query, keys, after, limit)


def disagreement_page(
    connection: Connection,
    edge: str | None,
    topic: str | None,
    after: tuple[int, str, str] | None,
    limit: int,
    period: tuple[int | None, int | None] = (None, None),
) -> list[Row]:
    """Windows on which the two counts differ (:func:`.queries.disagreements`), newest first, then
    by edge and topic; ``period``: those that start in it (ms, its end excluded). They are found by
    way of the few windows that are not COMPLETE: where both are, the counts agree."""
    spark, query = queries.two_counts()
    v, edges = verdicts.c, [edge] if edge is not None else edges_known(connection)
    suspect = select(v.edge, v.topic, v.window).where(v.edge.in_(edges), v.state.in_(_SUSPECT))
    key = tuple_(spark.c.edge, spark.c.topic, spark.c.window)
    query = query.where(key.in_(suspect))
    which = WhichRecords(*period, edge=edge, topic=topic)
    query = _where(query, which, spark.c.window, edge=spark.c.edge, topic=spark.c.topic)
    if after is not None:
        window, *place = after
        later = tuple_(spark.c.edge, spark.c.topic) > tuple_(*map(literal, place))
        same = and_(spark.c.window == window, later)
        query = query.where(or_(spark.c.window < window, same))
    order = spark.c.window.desc(), spark.c.edge, spark.c.topic
    return _rows(connection, query.order_by(*order).limit(limit))


def group_page(
    connection: Connection,
    cluster: str | None,
    group: str | None,
    topic: str | None,
    after: tuple[str, str, str] | None,
    limit: int,
) -> list[Row]:
    """The consumer groups that report, by cluster, group and topic: how many runs there were and
    how many have not ended, when their last event came (ms), and the watermark of the hop."""
    r, t = reporters.c, reporter_topics.c
    reading = and_(t.cluster == r.cluster, t.reporter == r.reporter)
    working = case((and_(r.closed.is_(False), ~RETIRED), 1), else_=0)
    keys = (r.cluster, r.consumer_group, t.topic)
    columns: list[ColumnElement[Any]] = [
        r.cluster,
        r.consumer_group.label("group"),
        t.topic,
        func.count().label("runs"),
        func.sum(working).label("working"),
        func.min(r.first_seen).label("first_seen"),
        func.max(r.last_heard).label("last_heard"),
    ]
    query = select(*columns).join(reporter_topics, reading)
    query = query.where(r.consumer_group != "", r.tier == "consumer").group_by(*keys)
    which = WhichRecords(cluster=cluster, topic=topic)
    query = _where(query, which, cluster=r.cluster, topic=t.topic)
    if group is not None:
        query = query.where(r.consumer_group == group)
    found = _after(connection, query, keys, after, limit)
    return _with_watermarks(connection, found)


def _with_watermarks(connection: Connection, found: list[Row]) -> list[Row]:
    for row in found:
        row["working"] = int(row["working"])
        row["edge"] = consumer_edge(row["cluster"], row["group"], "").name
    marks = {
        (one["edge"], one["topic"]): one
        for one in paging.watermarks_of(connection, {(row["edge"], row["topic"]) for row in found})
    }
    for row in found:
        mark = marks.get((row["edge"], row["topic"]))
        row["through"] = mark["through"] if mark else -1
        row["horizon"] = mark["horizon"] if mark else -1
        row["holes"] = len(holes_of(mark)) if mark else 0
    return found


def _where(
    query: Select[Any],
    which: WhichRecords,
    at: ColumnElement[int] | None = None,
    **columns: ColumnElement[str],
) -> Select[Any]:
    for name, column in columns.items():
        value = getattr(which, name)
        if name == "kinds":
            query = query.where(column.in_(value)) if value else query
        elif value is not None:
            query = query.where(column == value)
    if at is not None and which.start is not None:
        query = query.where(at >= which.start)
    if at is not None and which.end is not None:
        query = query.where(at < which.end)
    return query


def _newest(
    connection: Connection,
    query: Select[Any],
    number: ColumnElement[int],
    after: int | None,
    limit: int,
) -> list[Row]:
    if after is not None:
        query = query.where(number < after)
    return _rows(connection, query.order_by(number.desc()).limit(limit))


def _after(
    connection: Connection,
    query: Select[Any],
    keys: Sequence[ColumnElement[Any]],
    after: Sequence[Any] | None,
    limit: int,
) -> list[Row]:
    if after is not None:
        query = query.where(tuple_(*keys) > tuple_(*map(literal, after)))
    return _rows(connection, query.order_by(*keys).limit(limit))


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(query).mappings()]
