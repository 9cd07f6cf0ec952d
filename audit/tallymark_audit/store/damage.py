"""Partitions that nobody can count to their end: a batch there cannot be read."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, delete, exists, select

from tallymark_audit.judge.damage import Damaged
from tallymark_audit.store.counts import Place, Position
from tallymark_audit.store.deleted import is_there
from tallymark_audit.store.incidents import Incident, add_incident
from tallymark_audit.store.tables import damage, observations, progress
from tallymark_audit.store.upsert import upsert

DAMAGED: Final = "damaged"
"""The kind of the incidents."""
MENDED: Final = "mended"
"""A partition that was damaged can be read again."""
MAX_WHY: Final = 160
"""Characters kept of what does not hold."""


def note_damage(
    connection: Connection, cluster: str, position: Position, offset: int, why: str, now_ms: int
) -> None:
    """The partition cannot be read from ``offset`` on. What is known already changes nothing."""
    known = connection.scalar(select(damage.c.from_offset).where(*_of(cluster, position.place)))
    if known == offset:
        return
    found = Damaged(cluster, *position.place, offset, why[:MAX_WHY])
    newest = connection.scalar(
        select(observations.c.max_timestamp)
        .where(
            observations.c.cluster == cluster,
            observations.c.seen_topic == position.topic,
            observations.c.seen_partition == position.partition,
        )
        .order_by(observations.c.last_offset.desc())
        .limit(1)
    )
    row = {
        "cluster": cluster,
        "topic": position.topic,
        "partition": position.partition,
        "from_offset": offset,
        "reason": found.why,
        # A record of the year 30000 is no reason to believe that all windows are over.
        "since": max(position.counted_through, min(newest or 0, now_ms)),
        "at": now_ms,
    }
    upsert(connection, damage, [row])
    incident = Incident(DAMAGED, found.reason, *position.place, offset, -1)
    add_incident(connection, cluster, incident, now_ms)


def end_damage(connection: Connection, cluster: str, place: Place) -> bool:
    """The partition can be read again; whether it could not."""
    return connection.execute(delete(damage).where(*_of(cluster, place))).rowcount > 0


def damaged_places(connection: Connection, cluster: str) -> frozenset[Place]:
    """The partitions of a cluster that are damaged."""
    query = select(damage.c.topic, damage.c.partition).where(damage.c.cluster == cluster)
    return frozenset((topic, partition) for topic, partition in connection.execute(query))


def damaged(connection: Connection, cluster: str, topic: str | None = None) -> tuple[Damaged, ...]:
    """What is damaged of a cluster, or of one of its topics, of partitions that there still are."""
    there = exists().where(
        progress.c.cluster == damage.c.cluster,
        progress.c.topic == damage.c.topic,
        progress.c.partition == damage.c.partition,
    )
    query = select(damage).where(damage.c.cluster == cluster, there, is_there(damage))
    if topic is not None:
        query = query.where(damage.c.topic == topic)
    query = query.order_by(damage.c.topic, damage.c.partition)
    return tuple(
        Damaged(
            cluster,
            row["topic"],
            row["partition"],
            row["from_offset"],
            row["reason"],
            row["since"],
        )
        for row in connection.execute(query).mappings()
    )


def is_spread(connection: Connection, cluster: str, topic: str) -> bool:
    """Whether the topic holds cells elsewhere than in the partition that they began in."""
    query = select(observations.c.window).where(
        observations.c.cluster == cluster,
        observations.c.seen_topic == topic,
        observations.c.partition != observations.c.seen_partition,
    )
    return connection.execute(query.limit(1)).first() is not None


def _of(cluster: str, place: Place) -> tuple[Any, ...]:
    return (
        damage.c.cluster == cluster,
        damage.c.topic == place[0],
        damage.c.partition == place[1],
    )
