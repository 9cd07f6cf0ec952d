"""Offsets that cannot be counted: a batch there cannot be read. Counting continues behind it.

The sender of such batches must not choose how much space they take in the store: consecutive ones
are one row, and a partition has at most :data:`MOST` rows. Beyond that the newest row grows, over
good batches too. So the unknown offsets may be too many, and never too few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, exists, select, update

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.store.counted.deleted import is_there
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.schema.tables import damage, incidents, observations, progress
from tallymark_audit.store.schema.upsert import upsert

DAMAGED: Final = "damaged"
"""The kind of the incidents."""
MENDED: Final = "mended"
"""What could not be read can be read again."""
MAX_WHY: Final = 160
"""Characters kept of what does not hold."""
MOST: Final = 100
"""Rows of a partition."""


@dataclass(frozen=True, slots=True)
class UnreadableSpan:
    """Offsets ``start`` up to ``end``, excluded, that cannot be read, and ``why``. ``since`` and
    ``until`` (ms): the newest time of what was read before, -1 where nothing was, and the time of
    what follows. ``final``: the batch was sent like that, and will never be readable."""

    start: int
    end: int
    why: str
    since: int = -1
    until: int = -1
    final: bool = False


def note_holes(
    connection: Connection,
    cluster: str,
    place: TopicPartition,
    holes: Iterable[UnreadableSpan],
    now_ms: int,
) -> None:
    """Keep that these offsets were passed over, in the order of the log."""
    for hole in holes:
        _note(connection, cluster, place, hole, now_ms)


def _note(
    connection: Connection, cluster: str, place: TopicPartition, hole: UnreadableSpan, now_ms: int
) -> None:
    until = now_ms if hole.until < 0 else min(hole.until, now_ms)
    since = max(hole.since, _newest_before(connection, cluster, place, hole.start, now_ms))
    until = max(since, until)
    row: dict[str, Any] = {
        "cluster": cluster,
        "topic": place[0],
        "partition": place[1],
        "from_offset": hole.start,
        "to_offset": hole.end,
        "reason": hole.why[:MAX_WHY],
        # A record of the year 30000 is no reason to believe that all windows are over.
        "since": min(since, now_ms),
        "until": until,
        "final": int(hole.final),
        "at": now_ms,
    }
    known = holes_of(connection, cluster, place)
    last = known[-1] if known else None
    if last is not None and (last.end == hole.start or len(known) >= MOST):
        row |= {
            "from_offset": last.start,
            "to_offset": max(last.end, hole.end),
            "reason": last.why,
            "since": last.since,
            "final": int(last.final and hole.final),
        }
        _grow_incident(connection, cluster, place, last.start, hole.end)
    elif hole.start not in {one.start for one in known}:
        told = Damaged(cluster, *place, hole.start, row["reason"], end=hole.end)
        incident = Incident(DAMAGED, told.reason, *place, hole.start, hole.end)
        fold_incident(connection, cluster, incident, now_ms)
    upsert(connection, damage, [row])


def _newest_before(
    connection: Connection, cluster: str, place: TopicPartition, offset: int, now_ms: int
) -> int:
    query = (
        select(observations.c.max_timestamp)
        .where(
            observations.c.cluster == cluster,
            observations.c.seen_topic == place[0],
            observations.c.seen_partition == place[1],
            observations.c.last_offset < offset,
        )
        .order_by(observations.c.last_offset.desc())
        .limit(1)
    )
    return min(connection.scalar(query) or 0, now_ms)


def _grow_incident(
    connection: Connection, cluster: str, place: TopicPartition, start: int, end: int
) -> None:
    """Damage that is known is one incident: its row counts, and its offsets grow."""
    connection.execute(
        update(incidents)
        .where(
            incidents.c.cluster == cluster,
            incidents.c.kind == DAMAGED,
            incidents.c.topic == place[0],
            incidents.c.partition == place[1],
            incidents.c.from_offset == start,
        )
        .values(to_offset=end, count=incidents.c.count + 1)
    )


def holes_of(connection: Connection, cluster: str, place: TopicPartition) -> list[UnreadableSpan]:
    """What was passed over of a partition, in the order of the log."""
    query = select(damage).where(*_of(cluster, place), damage.c.to_offset >= 0)
    return [
        UnreadableSpan(
            row["from_offset"],
            row["to_offset"],
            row["reason"],
            row["since"],
            row["until"],
            bool(row["final"]),
        )
        for row in connection.execute(query.order_by(damage.c.from_offset)).mappings()
    ]


def not_final(connection: Connection, cluster: str) -> list[tuple[TopicPartition, UnreadableSpan]]:
    """What was passed over of a cluster and may be mended, by place."""
    query = (
        select(damage.c.topic, damage.c.partition)
        .where(damage.c.cluster == cluster, damage.c.to_offset >= 0, damage.c.final == 0)
        .distinct()
    )
    places = [(topic, partition) for topic, partition in connection.execute(query)]
    return [
        (place, hole)
        for place in sorted(places)
        for hole in holes_of(connection, cluster, place)
        if not hole.final
    ]


def fill(connection: Connection, cluster: str, place: TopicPartition, hole: UnreadableSpan) -> bool:
    """Remove the damage: it can be read now, and is counted in the same transaction. False: it has
    changed, or is counted already."""
    found = connection.execute(
        delete(damage).where(
            *_of(cluster, place),
            damage.c.from_offset == hole.start,
            damage.c.to_offset == hole.end,
        )
    )
    return found.rowcount == 1


def give_up(
    connection: Connection, cluster: str, place: TopicPartition, hole: UnreadableSpan
) -> None:
    """Stop looking for a repair: the batch is not in the log any more."""
    mine = *_of(cluster, place), damage.c.from_offset == hole.start
    connection.execute(update(damage).where(*mine).values(final=1))


def end_damage(
    connection: Connection, cluster: str, place: TopicPartition, offset: int = -1
) -> bool:
    """What is known of ``offset`` and behind is known of another log by now; whether anything
    was."""
    gone = delete(damage).where(*_of(cluster, place), damage.c.from_offset >= offset)
    return connection.execute(gone).rowcount > 0


def end_stop(connection: Connection, cluster: str, place: TopicPartition) -> None:
    """An older program had stopped there: counting continues."""
    connection.execute(delete(damage).where(*_of(cluster, place), damage.c.to_offset < 0))


def damaged_places(connection: Connection, cluster: str) -> frozenset[TopicPartition]:
    """The partitions of a cluster where an older program has stopped."""
    query = select(damage.c.topic, damage.c.partition).where(
        damage.c.cluster == cluster, damage.c.to_offset < 0
    )
    return frozenset((topic, partition) for topic, partition in connection.execute(query))


def damaged(
    connection: Connection, cluster: str, topic: str | None = None, found_since: int = 0
) -> tuple[Damaged, ...]:
    """What is damaged of a cluster, or of one of its topics, of partitions that there still are;
    as far as it was found at ``found_since`` (ms) or later."""
    there = exists().where(
        progress.c.cluster == damage.c.cluster,
        progress.c.topic == damage.c.topic,
        progress.c.partition == damage.c.partition,
    )
    query = select(damage).where(
        damage.c.cluster == cluster, damage.c.at >= found_since, there, is_there(damage)
    )
    if topic is not None:
        query = query.where(damage.c.topic == topic)
    query = query.order_by(damage.c.topic, damage.c.partition, damage.c.from_offset)
    return tuple(
        Damaged(
            cluster,
            row["topic"],
            row["partition"],
            row["from_offset"],
            row["reason"],
            row["since"],
            end=row["to_offset"],
            until=row["until"],
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


def _of(cluster: str, place: TopicPartition) -> tuple[Any, ...]:
    return (
        damage.c.cluster == cluster,
        damage.c.topic == place[0],
        damage.c.partition == place[1],
    )
