"""The numbers at the top of a page: did every message arrive, in a period that is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, func, select

from tallymark_audit.store.reading.sums import STATEMENTS, Sums, hop_sums, once, summed, sums_in
from tallymark_audit.store.schema.tables import edge_sums, topic_sums, watermarks


@dataclass(frozen=True, slots=True)
class Pulse:
    """The messages of the windows that begin from ``start`` up to ``end`` (ms, excluded), each
    counted once (:func:`~.sums.once`): claimed at the first hop of its topic, and pending, missing,
    duplicated or unclaimed at the hop where that happened. ``hops``: the same of each edge by
    itself.

    ``through``: the earliest watermark of all (ms), and the topic and edge that have it; -1 where
    there is none. ``topics``: how many there are."""

    start: int
    end: int
    sums: Sums
    hops: Mapping[str, Sums] = field(default_factory=dict[str, Sums])
    through: int = -1
    through_edge: str = ""
    through_topic: str = ""
    topics: int = 0


def pulse(connection: Connection, start: int, end: int, topic: str | None = None) -> Pulse:
    """Of all topics, or of one."""
    if topic is None:
        hops = _all_topics(connection, start, end)
        topics = connection.scalar(
            select(func.count(topic_sums.c.topic.distinct())).where(topic_sums.c.topic != "")
        )
    else:
        hops = hop_sums(connection, [topic], start, end).get(topic, {})
        topics = 1
    through, edge, named = _earliest(connection, topic)
    return Pulse(start, end, once(hops), hops, through, edge, named, topics or 0)


def _all_topics(connection: Connection, start: int, end: int) -> dict[str, Sums]:
    return {row[0]: sums_in(row[1:]) for row in connection.execute(_edges_query(start, end))}


@lru_cache(maxsize=STATEMENTS)
def _edges_query(start: int, end: int) -> Select[Any]:
    t = edge_sums.c
    return select(t.edge, *summed(t)).where(t.window >= start, t.window < end).group_by(t.edge)


def _earliest(connection: Connection, topic: str | None) -> tuple[int, str, str]:
    t = watermarks.c
    query = select(t.through, t.edge, t.topic).order_by(t.through, t.edge, t.topic).limit(1)
    if topic is not None:
        query = query.where(t.topic == topic)
    row = connection.execute(query).first()
    return (row.through, row.edge, row.topic) if row is not None else (-1, "", "")
