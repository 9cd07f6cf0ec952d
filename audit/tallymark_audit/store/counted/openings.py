"""What each partition has spent of its budget for new cells, and what exceeded it, written together
with the counts; see :mod:`tallymark_audit.collector.limits.openings`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from tallymark_audit.model.cells import OVERFLOW, RunName
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.tables import observations, openings, reporters, window_changes
from tallymark_audit.store.schema.upsert import upsert


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one partition: what is spent, in units times ms, as of ``at`` (ms). ``records`` are those
    ever counted in its overflow cells, the last of them at ``refused_at`` (ms)."""

    minute: int = 0
    hour: int = 0
    at: int = 0
    records: int = 0
    refused_at: int = 0


class Overflowed(NamedTuple):
    """A partition with records in overflow cells, the last of them counted at ``refused_at``."""

    cluster: str
    topic: str
    partition: int
    records: int
    refused_at: int


def spent_of(connection: Connection, cluster: str, topic: str, partition: int) -> Spent:
    """Of one partition."""
    t = openings.c
    query = select(*[t[name] for name in Spent.__slots__]).where(
        t.cluster == cluster, t.topic == topic, t.partition == partition
    )
    row = connection.execute(query).first()
    return Spent(*row) if row else Spent()


def save_spent(
    connection: Connection, cluster: str, topic: str, partition: int, spent: Spent
) -> None:
    """The inverse of :func:`spent_of`, of a partition that is ours."""
    told = {name: getattr(spent, name) for name in Spent.__slots__}
    row = {"cluster": cluster, "topic": topic, "partition": partition, **told}
    upsert(connection, openings, [row])


def overflowed(connection: Connection, since: int = 1) -> list[Overflowed]:
    """The partitions that have records in overflow cells, counted from ``since`` (ms) on."""
    query = select(*[openings.c[name] for name in Overflowed._fields]).where(
        openings.c.refused_at >= since
    )
    order = openings.c.cluster, openings.c.topic, openings.c.partition
    return [Overflowed(*row) for row in connection.execute(query.order_by(*order))]


def reported_runs(connection: Connection, runs: Iterable[RunName]) -> set[RunName]:
    """Those of the runs that have reported what they send, on any cluster. An instance that has
    reported is another run under another server's name: anyone that reads a stamp can repeat its
    instance with any name."""
    wanted, found = set(runs), set[RunName]()
    for some in chunks(sorted({instance for _, instance in wanted})):
        query = select(reporters.c.server, reporters.c.instance).where(
            reporters.c.instance.in_(some), reporters.c.tier == "producer"
        )
        found |= {(row.server, row.instance) for row in connection.execute(query)}
    return found & wanted


def known_reporters(connection: Connection, cluster: str, names: Iterable[str]) -> set[str]:
    """Those of the reporters that have reported on the cluster."""
    t, found = reporters.c, set[str]()
    for some in chunks(sorted(set(names))):
        query = select(t.reporter).where(t.cluster == cluster, t.reporter.in_(some))
        found |= set(connection.scalars(query))
    return found


def known_windows(
    connection: Connection, cluster: str, topic: str, windows: Collection[int]
) -> set[int]:
    """Those of the windows that the store has and that may be judged again."""
    t, found = window_changes.c, set[int]()
    for some in chunks(sorted(windows)):
        query = select(t.window).where(t.cluster == cluster, t.topic == topic, t.window.in_(some))
        found |= set(connection.scalars(query))
    return found


def hidden_records(
    connection: Connection, cluster: str, topic: str, windows: Sequence[int], window_ms: int
) -> dict[int, int]:
    """By window, how many records the cluster has that may be of any cell of it: those in its
    overflow cells, and those counted in the window of what opened too many
    (``overflow_window`` of :mod:`tallymark_audit.collector.limits.window_bound`) whose times
    include it."""
    t = observations.c
    here = (t.cluster == cluster, t.topic == topic, t.tier == "cluster")
    found: dict[int, int] = {}
    for some in chunks(windows):
        query = select(t.window, func.sum(t.count)).where(
            *here, t.window.in_(some), t.server == OVERFLOW, t.instance == ""
        )
        found |= {at: int(count) for at, count in connection.execute(query.group_by(t.window))}
    query = select(t.min_timestamp, t.max_timestamp, t.count)
    for row in connection.execute(query.where(*here, t.window == -2 * window_ms)):
        for at in windows:
            if row.min_timestamp < at + window_ms and row.max_timestamp >= at:
                found[at] = found.get(at, 0) + int(row[2])
    return found
