"""Pages of the store: each begins after the last key of the one before (keyset paging), so pages
stay right while rows are added, and the hundredth costs as much as the first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, Select, and_, literal, or_, select, tuple_, union, union_all

from tallymark_audit.store.counted import archive
from tallymark_audit.store.counted.facts import RETIRED, chunks
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.schema.portions import MOST_BYTES, first_of, size_of
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import (
    alerts,
    claims,
    observations,
    reporter_topics,
    reporters,
    topic_sums,
    verdicts,
    watermarks,
)
from tallymark_audit.store.schema.tables import archive as archived

Tier = Literal["producer", "cluster", "consumer", "lake"]
CELLS_LEFT_OUT: Final = ("cells",)
"""Of a verdict: the evidence of the window has them."""


class Which(NamedTuple):
    """Which windows: ``start`` included, ``end`` excluded (ms); None or empty is all."""

    edge: str | None = None
    topic: str | None = None
    states: Sequence[str] = ()
    start: int | None = None
    end: int | None = None


def verdict_page(
    connection: Connection, which: Which, after: tuple[int, str, str] | None, limit: int
) -> list[Row]:
    """Verdicts that hold, without their cells: newest window first, then by edge and topic.
    ``after``: window, edge and topic of the last one of the page before."""
    if which.topic is None or which.edge is not None:
        return _rows(connection, _verdicts(which, after, limit))
    # Edge by edge: by time alone, a database would pass over the windows of all other topics.
    t = topic_sums.c
    edges = connection.scalars(select(t.edge).where(t.topic == which.topic)).all()
    parts = [_verdicts(which._replace(edge=edge), after, limit).subquery() for edge in edges]
    if not parts:
        return []
    found = union_all(*[select(part) for part in parts]).subquery()
    order = (found.c.window.desc(), found.c.edge, found.c.topic)
    return _rows(connection, select(found).order_by(*order).limit(limit))


def _verdicts(which: Which, after: tuple[int, str, str] | None, limit: int) -> Select[Any]:
    t = verdicts.c
    query = select(*[column for column in t if column.name not in CELLS_LEFT_OUT])
    query = query.where(effective())
    if which.edge is not None:
        query = query.where(t.edge == which.edge)
    if which.topic is not None:
        query = query.where(t.topic == which.topic)
    if which.states:
        query = query.where(t.state.in_(which.states))
    if which.start is not None:
        query = query.where(t.window >= which.start)
    if which.end is not None:
        query = query.where(t.window < which.end)
    if after is not None:
        window, edge, topic = after
        later = or_(t.edge > edge, and_(t.edge == edge, t.topic > topic))
        query = query.where(t.window <= window, or_(t.window < window, later))
    return query.order_by(t.window.desc(), t.edge, t.topic).limit(limit)


def cell_windows(
    connection: Connection,
    cluster: str,
    topic: str,
    tier: Tier,
    start: int,
    end: int,
    limit: int,
) -> list[int]:
    """The first windows from ``start`` up to ``end`` (ms, excluded) of which cells are kept."""
    table = observations if tier == "cluster" else claims
    kept = [
        select(each.c.window).where(
            each.c.cluster == cluster,
            each.c.topic == topic,
            each.c.window >= start,
            each.c.window < end,
        )
        for each in (table, archived)
    ]
    found = union(*kept).subquery()
    query = select(found.c.window).order_by(found.c.window).limit(limit)
    return [window for (window,) in connection.execute(query)]


def cells(
    connection: Connection, cluster: str, topic: str, tier: Tier, windows: Sequence[int]
) -> list[Row]:
    """All cells of these windows that were counted in a tier, by window, partition, instance."""
    table = observations if tier == "cluster" else claims
    query = select(table).where(
        table.c.cluster == cluster, table.c.topic == topic, table.c.window.in_(windows)
    )
    rows = _rows(connection, query) if windows else []
    rows += archive.packed_rows(connection, table, cluster, topic, windows, set())
    order = ("window", "partition", "server", "instance")
    found = [row for row in rows if row["tier"] == tier]
    return sorted(found, key=lambda row: tuple(row[name] for name in order))


class CellPage(NamedTuple):
    """Cells, and the key behind which the next page begins: a window, or a cell of a window that is
    continued (:data:`_CELL_KEYS`); None: there are no more."""

    rows: list[Row]
    after: list[Any] | None


_CELL_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "observations": ("partition", "server", "instance", "seen_topic", "seen_partition"),
    "claims": ("partition", "server", "instance", "reporter", "part"),
}


def cell_page(
    connection: Connection,
    cluster: str,
    topic: str,
    tier: Tier,
    windows: Sequence[int],
    after: Sequence[Any],
    most: int,
    most_bytes: int = 4 * MOST_BYTES,
) -> CellPage:
    """The cells of these windows that were counted in a tier, by window, partition, server and
    instance; of the first only those behind the cell ``after``."""
    rows: list[Row] = []
    room = most_bytes
    for window in windows:
        found = _cells_behind(connection, cluster, topic, tier, window, after, most - len(rows))
        kept, more = first_of(found, most - len(rows), room)
        rows, after, room = rows + kept, (), max(1, room - sum(map(size_of, kept)))
        if not more and (len(rows) >= most or room == 1):
            return CellPage(rows, None if window == windows[-1] else [window])
        if more:
            names = _CELL_KEYS[(observations if tier == "cluster" else claims).name]
            return CellPage(rows, [window, *(rows[-1][name] for name in names)])
    return CellPage(rows, None)


def _cells_behind(
    connection: Connection,
    cluster: str,
    topic: str,
    tier: Tier,
    window: int,
    after: Sequence[Any],
    most: int,
) -> list[Row]:
    """At most one more than ``most``, unless the window is archived: it is one row, then. If that
    cannot be unpacked it has no cells; the window's verdict gives the reason."""
    table = observations if tier == "cluster" else claims
    names = _CELL_KEYS[table.name]
    if archive.packed_rows(connection, table, cluster, topic, [window], set()):
        found = cells(connection, cluster, topic, tier, [window])
        found.sort(key=lambda row: [row[name] for name in names])
        return [row for row in found if not after or [row[name] for name in names] > list(after)]
    keys = [table.c[name] for name in names]
    query = select(table).where(
        table.c.cluster == cluster,
        table.c.topic == topic,
        table.c.window == window,
        table.c.tier == tier,
    )
    if after:
        query = query.where(tuple_(*keys) > tuple_(*(literal(value) for value in after)))
    return _rows(connection, query.order_by(*keys).limit(most + 1))


def watermark_page(
    connection: Connection,
    edge: str | None,
    topic: str | None,
    after: tuple[str, str] | None,
    limit: int,
) -> list[Row]:
    """Watermarks by edge and topic."""
    t = watermarks.c
    query = select(watermarks)
    if edge is not None:
        query = query.where(t.edge == edge)
    if topic is not None:
        query = query.where(t.topic == topic)
    if after is not None:
        query = query.where(or_(t.edge > after[0], and_(t.edge == after[0], t.topic > after[1])))
    return _rows(connection, query.order_by(t.edge, t.topic).limit(limit))


def watermarks_of(connection: Connection, places: Collection[tuple[str, str]]) -> list[Row]:
    """The watermarks of some edges and topics."""
    t, found = watermarks.c, list[Row]()
    for some in chunks(sorted(places)):
        one_of = [and_(t.edge == edge, t.topic == topic) for edge, topic in some]
        found += _rows(connection, select(watermarks).where(or_(*one_of)))
    return found


def reporter_page(
    connection: Connection,
    cluster: str | None,
    kind: str | None,
    heard_since: int | None,
    after: tuple[str, str] | None,
    limit: int,
    topic: str | None = None,
) -> list[Row]:
    """Reporters by cluster and name; ``heard_since`` (ms): only those that have not ended and have
    reported since then; ``topic``: only those that report on it."""
    t = reporters.c
    left_out = ("seen", "ahead")  # how their events came in, of no use to others
    query = select(*[column for column in t if column.name not in left_out])
    if cluster is not None:
        query = query.where(t.cluster == cluster)
    if kind is not None:
        query = query.where(t.kind == kind)
    if topic is not None:
        about = reporter_topics.c
        mine = select(about.reporter).where(
            about.cluster == t.cluster, about.reporter == t.reporter, about.topic == topic
        )
        query = query.where(mine.exists())
    if heard_since is not None:
        query = query.where(t.closed.is_(False), ~RETIRED, t.last_heard >= heard_since)
    if after is not None:
        later = and_(t.cluster == after[0], t.reporter > after[1])
        query = query.where(or_(t.cluster > after[0], later))
    return _rows(connection, query.order_by(t.cluster, t.reporter).limit(limit))


def alert_page(
    connection: Connection,
    statuses: Sequence[str],
    after: tuple[int, str] | None,
    limit: int,
    rule: str | None = None,
    period: tuple[int | None, int | None] = (None, None),
) -> list[Row]:
    """Alerts, the newest first; all there ever were, or those of some statuses, of a rule, or that
    held at some time of a period (ms, its end excluded)."""
    t, (start, end) = alerts.c, period
    query = select(alerts)
    if statuses:
        query = query.where(t.status.in_(statuses))
    if rule is not None:
        query = query.where(t.rule == rule)
    if end is not None:
        query = query.where(t.starts_at < end)
    if start is not None:
        query = query.where(or_(t.ends_at == 0, t.ends_at >= start))
    if after is not None:
        earlier = and_(t.starts_at == after[0], t.fingerprint > after[1])
        query = query.where(or_(t.starts_at < after[0], earlier))
    return _rows(connection, query.order_by(t.starts_at.desc(), t.fingerprint).limit(limit))


def _rows(connection: Connection, query: Select[Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(query).mappings()]
