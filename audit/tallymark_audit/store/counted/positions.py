"""The collector of a cluster, and the positions of its partitions: both are fenced.

A collector that begins to count a partition takes the next generation of it (:func:`take`), and
moves it from exactly the offset at which the counting began (:func:`move`), which also locks its
row. A collector that counted the partition before cannot move it any more: :class:`FencedError`,
and nothing of its transaction is written. So it does not matter how sure a collector can be that a
partition is still its own. One of a cluster's collectors is in charge of what is done once a
cluster (:func:`take_over`, :func:`fence`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.store.schema.rows import (
    Row,
)
from tallymark_audit.store.schema.tables import collectors, progress
from tallymark_audit.store.schema.upsert import insert_new


class FencedError(TallymarkError):
    """Another collector has taken over; nothing was written."""


class PartitionFencedError(FencedError):
    """Another collector counts the partition at ``place`` now; nothing was written."""

    def __init__(self, message: str, place: TopicPartition) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is counted; times in ms. ``topic_id`` is hex, ``""`` if not known.
    ``generation`` is its collector's. ``open_offset``: where a transaction of ``open_producer``
    begins that counting has waited for since ``open_since``; -1: for none. ``open_timeout``: what
    its coordinator knows as its timeout, 0: not known."""

    topic: str
    partition: int
    topic_id: str = ""
    next_offset: int = 0
    leader_epoch: int = -1
    counted_through: int = 0
    high_watermark: int = 0
    generation: int = 0
    open_offset: int = -1
    open_producer: int = -1
    open_since: int = 0
    open_timeout: int = 0

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition


def take_over(connection: Connection, cluster: str, owner: str, now_ms: int) -> int:
    """Become the collector in charge of the cluster: the new generation, which fences every older
    one off."""
    told = {"owner": owner, "started_at": now_ms, "heartbeat": now_ms}
    # One statement: two that start at once must not get the same generation.
    statement = (
        _insert(connection, collectors)
        .values(cluster=cluster, generation=1, **told)
        .on_conflict_do_update(
            index_elements=["cluster"],
            set_={"generation": collectors.c.generation + 1, **told},
        )
        .returning(collectors.c.generation)
    )
    generation: int = connection.execute(statement).scalar_one()
    return generation


def fence(
    connection: Connection,
    cluster: str,
    generation: int,
    now_ms: int,
    discovered_through: int | None = None,
) -> None:
    """Be in charge of the cluster for this transaction. FencedError: a newer collector is."""
    values = {"heartbeat": now_ms}
    if discovered_through is not None:
        values["discovered_through"] = discovered_through
    held = connection.execute(
        update(collectors)
        .where(collectors.c.cluster == cluster, collectors.c.generation == generation)
        .values(**values)
    )
    if held.rowcount != 1:
        raise FencedError(f"the collector of {cluster} is now {_owner(connection, cluster)}")


def last_in_charge(connection: Connection, cluster: str) -> int:
    """The last heartbeat of the collector in charge, in ms; 0 if there is none."""
    query = select(collectors.c.heartbeat).where(collectors.c.cluster == cluster)
    return connection.scalar(query) or 0


def step_down(connection: Connection, cluster: str, generation: int) -> None:
    """End being in charge, if this collector is: the next one need not wait."""
    connection.execute(
        update(collectors)
        .where(collectors.c.cluster == cluster, collectors.c.generation == generation)
        .values(heartbeat=0)
    )


def load_positions(connection: Connection, cluster: str) -> list[Position]:
    """How far every partition of the cluster is counted."""
    fields = [progress.c[name] for name in Position.__slots__]
    query = select(*fields).where(progress.c.cluster == cluster)
    return [Position(**row) for row in connection.execute(query).mappings()]


def add_positions(connection: Connection, cluster: str, new: Iterable[Position]) -> None:
    """Let it be known that these partitions have to be counted; those that are known stay."""
    insert_new(connection, progress, [_position_row(cluster, position) for position in new])


def take(connection: Connection, cluster: str, wanted: Iterable[Position]) -> list[Position]:
    """Become the collector of these partitions: they continue at their positions in the store, in a
    new generation; partitions without a position begin as given."""
    fields = [progress.c[name] for name in Position.__slots__]
    taken: list[Position] = []
    for position in sorted(wanted, key=lambda one: one.place):
        # One statement, as in take_over().
        statement = (
            _insert(connection, progress)
            .values(**_position_row(cluster, position) | {"generation": 1})
            .on_conflict_do_update(
                index_elements=["cluster", "topic", "partition"],
                set_={"generation": progress.c.generation + 1},
            )
            .returning(*fields)
        )
        taken.append(Position(**connection.execute(statement).mappings().one()))
    return taken


def move(connection: Connection, cluster: str, start: int, to: Position) -> None:
    """Store that the partition is counted from ``start`` up to ``to``. PartitionFencedError: it was
    not at ``start`` any more, or not this generation's."""
    moved = connection.execute(
        update(progress)
        .where(
            progress.c.cluster == cluster,
            progress.c.topic == to.topic,
            progress.c.partition == to.partition,
            progress.c.next_offset == start,
            progress.c.generation == to.generation,
        )
        .values({name: getattr(to, name) for name in Position.__slots__})
    )
    if moved.rowcount != 1:
        raise PartitionFencedError(
            f"{cluster} {to.topic}-{to.partition} was taken from offset {start} on by another; the "
            f"collector of {cluster} is now {_owner(connection, cluster)}",
            to.place,
        )


def _owner(connection: Connection, cluster: str) -> str:
    query = select(collectors.c.owner).where(collectors.c.cluster == cluster)
    return connection.scalar(query) or "another one"


def _insert(connection: Connection, table: Any) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def _position_row(cluster: str, position: Position) -> Row:
    return {"cluster": cluster, **{name: getattr(position, name) for name in Position.__slots__}}
