"""The heatmap: topics by buckets of time, in a number of queries that does not depend on either."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import Connection, Select, func, select

from tallymark_audit.judge.states import SEVERITY, State
from tallymark_audit.store.reading.sums import STATEMENTS, WRONG, Only, period_sums, summed
from tallymark_audit.store.schema.summed_tables import BAD, IN_STATE
from tallymark_audit.store.schema.tables import incident_windows

_SEVERITY: Final = {str(state): rank for state, rank in SEVERITY.items()}
_COMPLETE: Final = str(State.COMPLETE)
_OTHERS: Final = tuple(str(state) for state in IN_STATE if state is not State.COMPLETE)
_ODD: Final = (*WRONG, BAD, *(IN_STATE[State(name)] for name in _OTHERS))
MOST_NAMED: Final = 20_000
"""Bad windows looked at to name the worst of each cell."""


class CellLike(Protocol):
    """What a cell says: :class:`CellSums`, or
    :class:`~tallymark_audit.store.reading.sums.Sums`."""

    @property
    def missing(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def unclaimed(self) -> int: ...
    @property
    def bad(self) -> int: ...
    @property
    def states(self) -> Mapping[str, int]: ...


class CellSums(NamedTuple):
    """What is wrong in a cell, on all hops together, and its windows by state, without zeros."""

    missing: int
    duplicates: int
    unclaimed: int
    bad: int
    states: Mapping[str, int]


class HeatCell(NamedTuple):
    """A topic in a bucket of time (``start``, ms): what is wrong, and its worst state on any edge.
    ``edge`` and ``window``: where to look at the evidence, "" and -1 while nothing is bad.
    ``healed``: windows that were bad and are not any more."""

    start: int
    state: str
    sums: CellLike
    edge: str = ""
    window: int = -1
    healed: int = 0


def heat(
    connection: Connection,
    topics: Collection[str],
    start: int,
    end: int,
    bucket_ms: int,
    edge: str | None = None,
) -> Mapping[str, list[HeatCell]]:
    """By topic the cells that have a window, the earliest first. Buckets are ``bucket_ms`` long and
    begin at multiples of that; windows begin from ``start`` up to ``end`` (ms, excluded). A bucket
    as long as a window is a window: so it makes strips, too.

    Nearly all cells are complete, and there are thousands: these are one number each."""
    if not topics:
        return {}
    named_topics = tuple(sorted(topics))
    named, healed = _incidents(connection, topics, start, end, bucket_ms, edge)

    def read(only: Only, columns: tuple[str, ...]) -> Sequence[Any]:
        query = _cells_query(named_topics, start, end, bucket_ms, edge, only, columns)
        return connection.execute(query).all()

    odd = {(row[0], row[1]): row[2:] for row in read("odd", _ODD)}
    found: dict[str, list[HeatCell]] = {topic: [] for topic in topics}
    whole: dict[int, CellSums] = {}
    for topic, bucket, count in read("all", (IN_STATE[State.COMPLETE],)):
        key = topic, bucket
        if key in odd:
            sums = _odd_sums(odd[key], int(count))
        else:
            sums = whole.get(count) or whole.setdefault(count, _healthy(int(count)))
        where, good = named.get(key, ("", -1)), healed.get(key, 0)
        found[topic].append(HeatCell(bucket, worst_of(sums), sums, *where, good))
    return found


@lru_cache(maxsize=STATEMENTS)
def _cells_query(
    topics: tuple[str, ...],
    start: int,
    end: int,
    bucket_ms: int,
    edge: str | None,
    only: Only,
    columns: tuple[str, ...],
) -> Select[Any]:
    """The sums of these columns by topic and bucket."""
    source = period_sums(
        start, end, topics=topics, edge=edge, only=only, finest=bucket_ms, columns=columns
    )
    c = source.c
    at = (c.at - c.at % bucket_ms).label("bucket")
    query = select(c.topic, at, *summed(c, columns)).group_by(c.topic, at)
    return query.order_by(c.topic, at)


def _healthy(count: int) -> CellSums:
    return CellSums(0, 0, 0, 0, {_COMPLETE: count} if count else {})


def _odd_sums(values: Any, complete: int) -> CellSums:
    """From the columns ``_ODD``. Sums of the database may be decimals."""
    missing, duplicates, unclaimed, bad, *counts = [int(value) for value in values]
    states = {_COMPLETE: complete, **dict(zip(_OTHERS, counts, strict=True))}
    present = {name: count for name, count in states.items() if count}
    return CellSums(missing, duplicates, unclaimed, bad, present)


def worst_of(sums: CellLike) -> str:
    """The worst state of any of the windows; "" without one."""
    return max(sums.states, key=_SEVERITY.__getitem__, default="")


def _incidents(
    connection: Connection,
    topics: Collection[str],
    start: int,
    end: int,
    bucket_ms: int,
    edge: str | None,
) -> tuple[dict[tuple[str, int], tuple[str, int]], dict[tuple[str, int], int]]:
    """By topic and bucket the worst bad window, and the number of those that were bad."""
    t = incident_windows.c
    here = [t.topic.in_(sorted(topics)), t.window >= start, t.window < end]
    if edge is not None:
        here.append(t.edge == edge)
    query = select(t.topic, t.edge, t.window, t.state, t.missing).where(*here, t.closed_at == 0)
    named: dict[tuple[str, int], tuple[str, int]] = {}
    worst: dict[tuple[str, int], tuple[int, int]] = {}
    for row in connection.execute(query.order_by(t.window).limit(MOST_NAMED)):
        key = row.topic, row.window - row.window % bucket_ms
        weight = SEVERITY[State(row.state)], row.missing
        if weight > worst.get(key, (-1, -1)):
            worst[key], named[key] = weight, (row.edge, row.window)
    at = t.window - t.window % bucket_ms
    count = select(t.topic, at.label("bucket"), func.count().label("windows"))
    count = count.where(*here, t.closed_at != 0).group_by(t.topic, at)
    healed = {(row.topic, row.bucket): row.windows for row in connection.execute(count)}
    return named, healed
