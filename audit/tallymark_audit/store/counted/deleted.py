"""Partitions that a cluster no longer has: of topics that were deleted, or came back with fewer.

Their counts stay, and so do their windows. Nothing more will arrive in them, so nothing waits for
them: they hold no verdict and no watermark, and what was not passed on by then is gone. A partition
that exists again, under the same id or another, is like all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Table, exists, select
from sqlalchemy import delete as delete_from

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.store.schema.tables import deleted, detached
from tallymark_audit.store.schema.upsert import insert_new


def note_deleted(
    connection: Connection, cluster: str, places: Iterable[TopicPartition], now_ms: int
) -> None:
    """The cluster does not have these any more. What is known already stays."""
    rows = [
        {"cluster": cluster, "topic": topic, "partition": partition, "at": now_ms}
        for topic, partition in sorted(places)
    ]
    insert_new(connection, deleted, rows)


def note_there(connection: Connection, cluster: str, places: Iterable[TopicPartition]) -> None:
    """The cluster has these again."""
    for topic, partition in sorted(places):
        connection.execute(
            delete_from(deleted).where(
                deleted.c.cluster == cluster,
                deleted.c.topic == topic,
                deleted.c.partition == partition,
            )
        )


def deleted_places(connection: Connection, cluster: str) -> frozenset[TopicPartition]:
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


def deletions(
    connection: Connection, cluster: str, topic: str
) -> tuple[dict[int, int], dict[int, int]]:
    """By partition of a topic, when (ms) it was deleted; and when it became another log, of those
    whose topic was made again."""
    gone, other = (
        connection.execute(
            select(table.c.partition, table.c.at).where(
                table.c.cluster == cluster, table.c.topic == topic
            )
        )
        for table in (deleted, detached)
    )
    return {row.partition: row.at for row in gone}, {row.partition: row.at for row in other}


def began_anew(connection: Connection, cluster: str) -> dict[str, int]:
    """By topic, since when (ms) its log is another one than before, or lacks a partition."""
    found: dict[str, int] = {}
    for table in (deleted, detached):
        query = select(table.c.topic, table.c.at).where(table.c.cluster == cluster)
        for topic, at in connection.execute(query):
            found[topic] = max(found.get(topic, 0), at)
    return found
