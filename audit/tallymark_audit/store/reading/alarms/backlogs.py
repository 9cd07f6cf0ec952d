"""What mirrors, loads and collectors have not taken yet, and every hop as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, and_, case, func, select

from tallymark_audit.judge.copy_progress import mirror_of
from tallymark_audit.model.cells import LAKE, Edge
from tallymark_audit.model.edges import passes
from tallymark_audit.store.counted import archive
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.judged.graph import history
from tallymark_audit.store.reading.sums import Sums, summed, sums_of
from tallymark_audit.store.schema.tables import (
    copied,
    edge_sums,
    observations,
    progress,
    reporters,
    watermarks,
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a reader has not taken yet from a partition of ``cluster``: so many offsets, the oldest
    stamped at ``oldest`` (ms). ``reader``: the edge's name, or ``collector``."""

    reader: str
    cluster: str
    topic: str
    partition: int
    offsets: int
    oldest: int


def mirror_backlogs(connection: Connection, edge: Edge) -> list[Backlog]:
    """What a mirror has not copied yet, from its own reports."""
    query = (
        select(copied.c.topic, copied.c.partition, func.max(copied.c.through_offset))
        .where(copied.c.cluster == edge.downstream, copied.c.reporter == mirror_of(edge))
        .group_by(copied.c.topic, copied.c.partition)
    )
    through = {(topic, number): at for topic, number, at in connection.execute(query)}
    return _backlogs(connection, edge.name, edge.upstream, through)


def load_backlogs(connection: Connection, edge: Edge) -> list[Backlog]:
    """What the load into the lake has not brought yet, from its own reports; of a topic that was
    never loaded, all. What is older than the edge has waited since there is the edge."""
    ids = {
        (row.topic, row.partition): row.topic_id
        for row in connection.execute(
            select(progress.c.topic, progress.c.partition, progress.c.topic_id).where(
                progress.c.cluster == edge.upstream
            )
        )
        if passes(edge, row.topic)
    }
    through = dict.fromkeys(ids, 0)
    of_lake = (reporters.c.cluster == copied.c.cluster) & (
        reporters.c.reporter == copied.c.reporter
    )
    said = (
        select(copied.c.topic, copied.c.partition, copied.c.topic_id, copied.c.through_offset)
        .join(reporters, of_lake)
        .where(copied.c.cluster == edge.upstream, reporters.c.tier == LAKE)
    )
    for topic, partition, topic_id, offset in connection.execute(said):
        place = topic, partition
        if place in ids and topic_id in ("", ids[place]):
            through[place] = max(through[place], offset)
    past = history(connection)
    return [
        replace(one, oldest=max(one.oldest, past.owed_from(edge, one.topic)))
        for one in _backlogs(connection, edge.name, edge.upstream, through)
    ]


def collector_backlogs(connection: Connection, cluster: str) -> list[Backlog]:
    """What the collector of a cluster has not counted yet. It arrived after the collector had last
    counted all there was; its age is known only when it is read."""
    found: list[Backlog] = []
    query = select(progress).where(
        progress.c.cluster == cluster,
        progress.c.high_watermark > progress.c.next_offset,
        is_there(progress),
    )
    for row in connection.execute(query).mappings():
        left = row["high_watermark"] - row["next_offset"]
        place = (cluster, row["topic"], row["partition"])
        if row["counted_through"]:
            found.append(Backlog("collector", *place, left, row["counted_through"]))
    return found


def _backlogs(
    connection: Connection, reader: str, cluster: str, through: Mapping[tuple[str, int], int]
) -> list[Backlog]:
    """Offsets from ``through`` on, by topic and partition, and the time of the oldest cell
    there."""
    found: list[Backlog] = []
    ends = select(progress.c.topic, progress.c.partition, progress.c.next_offset).where(
        progress.c.cluster == cluster, is_there(progress)
    )
    for topic, partition, end in connection.execute(ends):
        at = through.get((topic, partition))
        if at is None or at >= end:
            continue
        oldest = connection.scalar(
            select(func.min(observations.c.min_timestamp)).where(
                observations.c.cluster == cluster,
                observations.c.seen_topic == topic,
                observations.c.seen_partition == partition,
                observations.c.last_offset >= at,
                observations.c.min_timestamp >= 0,
            )
        )
        if oldest is None:  # healthy so far, and packed: as old as the window then
            packed = archive.windows_beyond(connection, cluster, topic, partition, at)
            oldest = min(packed, default=None)
        if oldest is not None:
            found.append(Backlog(reader, cluster, topic, partition, end - at, oldest))
    return found


@dataclass(frozen=True, slots=True)
class HopFacts:
    """``sums``: of the windows of a period. ``through``: every topic is complete through this time
    (ms; 0: at least one is not complete at all, or nothing is judged). ``topics``: that have a
    watermark. ``behind``: offsets that its mirror has not copied yet of what the collector has
    counted upstream; None: no mirror has reported."""

    sums: Sums
    through: int
    topics: int
    behind: int | None


def hop_facts(
    connection: Connection, edges: Sequence[Edge], start: int, end: int
) -> dict[str, HopFacts]:
    """By the edge's name, in a fixed number of queries. Windows begin from ``start`` up to ``end``
    (ms, excluded)."""
    t = edge_sums.c
    query = select(t.edge, *summed(t)).where(t.window >= start, t.window < end).group_by(t.edge)
    sums = {row["edge"]: sums_of(row) for row in connection.execute(query).mappings()}
    w = watermarks.c
    marks = {
        edge: (int(through), int(topics))
        for edge, through, topics in connection.execute(
            select(w.edge, func.min(w.through), func.count()).group_by(w.edge)
        )
    }
    behind = _behind(connection)
    found: dict[str, HopFacts] = {}
    for edge in edges:
        through, topics = marks.get(edge.name, (0, 0))
        place = edge.upstream, edge.downstream, mirror_of(edge)
        found[edge.name] = HopFacts(
            sums.get(edge.name, Sums()), max(0, through), topics, behind.get(place)
        )
    return found


def _behind(connection: Connection) -> dict[tuple[str, str, str], int]:
    """Offsets not copied yet, by source, target and reporter."""
    left = progress.c.next_offset - copied.c.through_offset
    query = (
        select(
            progress.c.cluster,
            copied.c.cluster,
            copied.c.reporter,
            func.sum(case((left > 0, left), else_=0)),
        )
        .join_from(
            copied,
            progress,
            and_(
                progress.c.topic == copied.c.topic,
                progress.c.partition == copied.c.partition,
                progress.c.cluster != copied.c.cluster,
            ),
        )
        .where(is_there(progress))
        .group_by(progress.c.cluster, copied.c.cluster, copied.c.reporter)
    )
    return {
        (source, target, reporter): int(offsets)
        for source, target, reporter, offsets in connection.execute(query)
    }
