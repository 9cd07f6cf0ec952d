"""What the page of one topic reads beside its sums: its hops, all its windows by page, and its
partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, or_, select

from tallymark.deployment import Deployment
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.judged.graph import known_edges
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.reading.sums import Sums
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import progress, verdicts, watermarks


@dataclass(frozen=True, slots=True)
class WhichWindows:
    """The windows of some topics on some edges that begin from ``start`` up to ``end`` (ms,
    excluded); ``states``: only these, unless there is none. The edges are named, since by edge and
    topic a window is found without a look at those of others."""

    topics: Collection[str]
    start: int
    end: int
    edges: Collection[str]
    states: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """How far a partition is counted. ``behind``: records that are not counted yet; ``through``
    (ms): when all there was had been counted last, 0 is never."""

    cluster: str
    topic: str
    partition: int
    behind: int
    through: int


def all_edges(connection: Connection, deployment: Deployment) -> list[Edge]:
    """Every edge there is or was; those of the settings, too, before a collector has noted them."""
    known = [one.edge for one in known_edges(connection)]
    names = {edge.name for edge in known}
    return [*known, *(edge for edge in derive_edges(deployment) if edge.name not in names)]


def windows_of_topic(
    connection: Connection, which: WhichWindows, skip: int = 0, limit: int = 100
) -> list[Row]:
    """The verdicts that hold, without their cells, the newest window first, then by edge."""
    t = verdicts.c
    query = select(*[column for column in t if column.name != "cells"]).where(
        t.edge.in_(sorted(which.edges)),
        t.topic.in_(sorted(which.topics)),
        t.window >= which.start,
        t.window < which.end,
        effective(),
    )
    if which.states:
        query = query.where(t.state.in_(sorted(which.states)))
    query = query.order_by(t.window.desc(), t.edge, t.topic).offset(skip).limit(limit)
    found = connection.execute(query)
    names = tuple(found.keys())
    return [dict(zip(names, row, strict=True)) for row in found]


def number_of_windows(sums: Collection[Sums], states: Collection[str] = ()) -> int:
    """How many windows these sums are of; only those in the states, unless there is none."""
    return sum(
        count
        for one in sums
        for state, count in one.states.items()
        if not states or state in states
    )


def partitions_of_topic(connection: Connection, topics: Collection[str]) -> list[PartitionCount]:
    """The partitions of these topics on every cluster that has them."""
    p = progress.c
    query = (
        select(p.cluster, p.topic, p.partition, p.next_offset, p.high_watermark, p.counted_through)
        .where(p.topic.in_(sorted(topics)), is_there(progress))
        .order_by(p.cluster, p.topic, p.partition)
    )
    return [
        PartitionCount(
            row.cluster,
            row.topic,
            row.partition,
            max(0, row.high_watermark - row.next_offset),
            row.counted_through,
        )
        for row in connection.execute(query)
    ]


def watermarks_of_topic(
    connection: Connection, places: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Through when (ms) these edges and topics are complete; without those that have no
    watermark."""
    w = watermarks.c
    if not places:
        return {}
    one_of = [and_(w.edge == edge, w.topic == topic) for edge, topic in places]
    query = select(w.edge, w.topic, w.through).where(or_(*one_of))
    return {(row.edge, row.topic): row.through for row in connection.execute(query)}
