"""Sums of verdicts by buckets of time, for charts."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from tallymark_audit.store.reading.sums import Sums, once, period_sums, summed, sums_in
from tallymark_audit.store.schema.tables import edge_sums


class Bucket(NamedTuple):
    """The windows that begin in a bucket (its start, ms)."""

    start: int
    sums: Sums


def buckets(
    connection: Connection,
    edge: str | None,
    topic: str | None,
    start: int,
    end: int,
    bucket_ms: int,
) -> list[Bucket]:
    """The sums of each bucket that has a window, the earliest first. Buckets are ``bucket_ms``
    long and begin at multiples of that; windows begin from ``start`` up to ``end`` (ms, excluded).
    ``edge`` None: of all edges, each message once (:func:`~.sums.once`). ``topic`` None: of all
    topics."""
    query = (
        _of_edges(edge, start, end, bucket_ms)
        if topic is None
        else _of_topic(edge, topic, start, end, bucket_ms)
    )
    found: dict[int, dict[str, Sums]] = {}
    for at, name, values in map(_split, connection.execute(query)):
        found.setdefault(at, {})[name] = sums_in(values)
    return [Bucket(at, once(hops)) for at, hops in sorted(found.items())]


def _split(row: Any) -> tuple[int, str, tuple[Any, ...]]:
    return row[0], row[1], row[2:]


def _of_edges(edge: str | None, start: int, end: int, bucket_ms: int) -> Select[Any]:
    t = edge_sums.c
    at = t.window - t.window % bucket_ms
    query = select(at.label("bucket"), t.edge, *summed(t)).where(t.window >= start, t.window < end)
    return (query if edge is None else query.where(t.edge == edge)).group_by(at, t.edge)


def _of_topic(edge: str | None, topic: str, start: int, end: int, bucket_ms: int) -> Select[Any]:
    source = period_sums(start, end, topics=[topic], edge=edge, finest=bucket_ms)
    at = source.c.at - source.c.at % bucket_ms
    return select(at.label("bucket"), source.c.edge, *summed(source.c)).group_by(at, source.c.edge)
