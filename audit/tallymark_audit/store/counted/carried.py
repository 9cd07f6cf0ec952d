"""How far mirrors, consumer groups and loads have come, and what mirrors and loads left out.

A mirror, a consumer or a load reports for each partition the offset below which it is done. A
mirror that does not report (MirrorMaker, an older version) is watched instead: partitions are
copied in order, so it has passed the beginning of the newest cell of which anything arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, exists, select

from tallymark_audit.judge.copy_progress import (
    GAP_MEANS,
    STOPPED,
    Cut,
    GapOf,
    Passed,
    Stop,
    Word,
    mirror_of,
    since_cuts,
)
from tallymark_audit.judge.states import ReporterFacts
from tallymark_audit.model.cells import Edge
from tallymark_audit.store.counted.facts import chunks, reporter_facts
from tallymark_audit.store.counted.incidents import GAP_TEXT, TRUNCATED, gap_text
from tallymark_audit.store.schema.tables import copied, incidents, observations, progress, reporters

_WORD = copied.c.reporter, copied.c.partition, copied.c.through_offset, copied.c.at


def mirror_reporter(connection: Connection, edge: Edge) -> ReporterFacts | None:
    """The mirror of the edge; None if it does not report how far it has copied."""
    name = mirror_of(edge)
    tells = select(copied.c.reporter).where(
        copied.c.cluster == edge.downstream, copied.c.reporter == name
    )
    if connection.execute(tells.limit(1)).first() is None:
        return None
    query = select(reporters).where(
        reporters.c.cluster == edge.downstream, reporters.c.reporter == name
    )
    row = connection.execute(query).mappings().first()
    return reporter_facts(dict(row)) if row else None


def words_of_mirror(connection: Connection, edge: Edge, topic: str) -> list[Word]:
    """The newest report of the edge's mirror on each partition of the topic."""
    return _words_now(connection, edge.upstream, edge.downstream, [mirror_of(edge)], topic)


def words_of_tables(
    connection: Connection, cluster: str, tables: Iterable[str], topic: str
) -> list[Word]:
    """How far each of these tables of the lake has come with each partition of the topic."""
    return _words_now(connection, cluster, cluster, sorted(tables), topic)


def _words_now(
    connection: Connection, upstream: str, reports: str, reporters: Sequence[str], topic: str
) -> list[Word]:
    """What these reporters said on the audit topic of the cluster ``reports``, without reports on
    an earlier topic of the same name, which was deleted and made again."""
    query = select(progress.c.partition, progress.c.topic_id).where(
        progress.c.cluster == upstream, progress.c.topic == topic
    )
    ids = {row.partition: row.topic_id for row in connection.execute(query)}
    said = copied.c.cluster == reports, copied.c.reporter.in_(reporters), copied.c.topic == topic
    found: list[Word] = []
    for row in connection.execute(select(*_WORD, copied.c.topic_id).where(*said)):
        now = ids.get(row.partition, "")
        if not row.topic_id or not now or row.topic_id == now:
            found.append(Word(row.reporter, row.partition, row.through_offset, row.at))
    return _since_cuts(connection, upstream, topic, found)


def words_of(
    connection: Connection, cluster: str, members: Iterable[str], topic: str
) -> list[Word]:
    """The newest report of each of these members on each partition of the topic."""
    found: list[Word] = []
    for some in chunks(sorted(members)):
        query = select(*_WORD).where(
            copied.c.cluster == cluster, copied.c.reporter.in_(some), copied.c.topic == topic
        )
        found += [Word(*row) for row in connection.execute(query)]
    return _since_cuts(connection, cluster, topic, found)


def _since_cuts(
    connection: Connection, cluster: str, topic: str, words: Sequence[Word]
) -> list[Word]:
    if not words:
        return []
    query = select(incidents.c.partition, incidents.c.from_offset, incidents.c.at).where(
        incidents.c.cluster == cluster,
        incidents.c.topic == topic,
        incidents.c.kind == TRUNCATED,
        incidents.c.at >= min(word.at for word in words),
    )
    return since_cuts(words, [Cut(*row) for row in connection.execute(query)])


def mirrored_through(connection: Connection, edge: Edge, topic: str) -> dict[int, Passed]:
    """By upstream partition, an offset that a mirror without reports has passed for certain: the
    beginning of the newest cell of which anything arrived."""
    up, down = observations.alias("up"), observations.alias("down")
    cell = ("tier", "window", "partition", "server", "instance")
    arrived = exists().where(
        down.c.cluster == edge.downstream,
        down.c.topic == edge.downstream_topic(topic),
        *(down.c[name] == up.c[name] for name in cell),
    )
    partitions = select(progress.c.partition).where(
        progress.c.cluster == edge.upstream, progress.c.topic == topic
    )
    found: dict[int, Passed] = {}
    for (partition,) in connection.execute(partitions).all():
        query = (
            select(up.c.first_offset)
            .where(
                up.c.cluster == edge.upstream,
                up.c.seen_topic == topic,
                up.c.seen_partition == partition,
                arrived,
            )
            .order_by(up.c.last_offset.desc())
            .limit(1)
        )
        offset = connection.scalar(query)
        if offset is not None:
            found[partition] = Passed(offset + 1)
    return found


def stops_of(connection: Connection, edge: Edge, topic: str) -> list[Stop]:
    """Where the edge's mirror has ever reported that it cannot read on; it may have come further
    since, and the topic may be another one
    (:func:`~tallymark_audit.judge.copy_progress.standing_still`).
    """
    text = gap_text(mirror_of(edge), STOPPED)
    query = select(incidents).where(
        incidents.c.cluster == edge.downstream,
        incidents.c.topic == topic,
        incidents.c.kind == "gap",
        incidents.c.reason == text,
    )
    return [
        Stop(row["partition"], row["from_offset"], row["at"])
        for row in connection.execute(query).mappings()
    ]


def gaps_of(connection: Connection, edge: Edge, topic: str) -> list[GapOf]:
    """The offsets of the topic that the edge's mirror could not copy, where their reason explains
    missing messages."""
    return gaps_by(connection, edge.downstream, [mirror_of(edge)], topic)


def gaps_by(
    connection: Connection, cluster: str, reporters: Iterable[str], topic: str
) -> list[GapOf]:
    """The same of reporters on the audit topic of a cluster."""
    found: list[GapOf] = []
    for name in reporters:
        start = GAP_TEXT.format(mirror=name, reason="")
        query = select(incidents).where(
            incidents.c.cluster == cluster,
            incidents.c.topic == topic,
            incidents.c.kind == "gap",
            incidents.c.reason.startswith(start, autoescape=True),
        )
        found += [
            GapOf(row["partition"], row["from_offset"], row["to_offset"] - 1, GAP_MEANS[reason])
            for row in connection.execute(query).mappings()
            if (reason := row["reason"].removeprefix(start)) in GAP_MEANS
        ]
    return found
