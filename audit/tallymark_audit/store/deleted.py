"""Partitions that a cluster no longer has: of topics that were deleted, or came back with fewer.

What was counted of them stays, and so do their windows. But nothing more comes of them, so nobody
waits for it: they hold no verdict and no watermark, and what was not passed on by then is gone. A
partition that is there again, under the same id or another, is one as all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, exists, select
from sqlalchemy import delete as delete_from

from tallymark_audit.judge.passing import GapOf, Passed
from tallymark_audit.model.cells import EXPIRED
from tallymark_audit.store.tables import deleted, detached
from tallymark_audit.store.upsert import insert_new

Place = tuple[str, int]
"""Topic and partition."""
FOREVER: Final = (1 << 63) - 1


def note_deleted(
    connection: Connection, cluster: str, places: Iterable[Place], now_ms: int
) -> None:
    """The cluster does not have these any more. What is known already stays."""
    rows = [
        {"cluster": cluster, "topic": topic, "partition": partition, "at": now_ms}
        for topic, partition in sorted(places)
    ]
    insert_new(connection, deleted, rows)


def note_there(connection: Connection, cluster: str, places: Iterable[Place]) -> None:
    """The cluster has these again."""
    for topic, partition in sorted(places):
        connection.execute(
            delete_from(deleted).where(
                deleted.c.cluster == cluster,
                deleted.c.topic == topic,
                deleted.c.partition == partition,
            )
        )


def deleted_places(connection: Connection, cluster: str) -> frozenset[Place]:
    """The partitions that a cluster had and does not have."""
    query = select(deleted.c.topic, deleted.c.partition).where(deleted.c.cluster == cluster)
    return frozenset((topic, partition) for topic, partition in connection.execute(query))


def is_there(table: Table) -> ColumnElement[bool]:
    """The condition that a row of a table, by cluster, topic and partition, is of a partition that
    has not been deleted."""
    return ~exists().where(
        deleted.c.cluster == table.c.cluster,
        deleted.c.topic == table.c.topic,
        deleted.c.partition == table.c.partition,
    )


def with_deletions(
    connection: Connection,
    cluster: str,
    topic: str,
    passed: Mapping[int, Passed],
    patience_ms: int,
) -> dict[int, Passed]:
    """How far whoever carries the topic on has come, by partition, with those that were deleted and
    those of a topic that was made again: with a log that is gone it is done. But what it had
    fetched of it, it may still bring for ``patience_ms``."""
    found = dict(passed)
    for partition, at in _of(connection, cluster, topic):
        found[partition] = Passed(FOREVER, at + patience_ms)
    query = select(detached.c.partition, detached.c.at).where(
        detached.c.cluster == cluster, detached.c.topic == topic
    )
    for partition, at in connection.execute(query):
        known = found.get(partition, Passed(0))
        found[partition] = known._replace(let_go=at + patience_ms)
    return found


def deletion_gaps(connection: Connection, cluster: str, topic: str) -> list[GapOf]:
    """What was not passed on before its partition was deleted: it was promised, and is gone."""
    found = _of(connection, cluster, topic)
    return [GapOf(partition, 0, FOREVER, EXPIRED) for partition, _ in found]


def began_anew(connection: Connection, cluster: str) -> dict[str, int]:
    """By topic, since when (ms) its log is another one than before, or lacks a partition."""
    found: dict[str, int] = {}
    for table in (deleted, detached):
        query = select(table.c.topic, table.c.at).where(table.c.cluster == cluster)
        for topic, at in connection.execute(query):
            found[topic] = max(found.get(topic, 0), at)
    return found


def _of(connection: Connection, cluster: str, topic: str) -> list[tuple[int, int]]:
    query = select(deleted.c.partition, deleted.c.at).where(
        deleted.c.cluster == cluster, deleted.c.topic == topic
    )
    return [(row.partition, row.at) for row in connection.execute(query)]
