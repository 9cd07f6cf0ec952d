"""What the collector writes: counts and the offsets up to which they hold, in one transaction.

Every transaction begins with :func:`fence`, which also locks the cluster's row, so that what is
read and written after it is nobody else's meanwhile. Each partition moves from exactly the offset
the counting began at; a collector that lost its cluster to a newer one moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tallymark.errors import TallymarkError
from tallymark_audit.cells import CellKey
from tallymark_audit.events import Gap
from tallymark_audit.sides import Observation
from tallymark_audit.store.facts import chunks
from tallymark_audit.store.rows import Row, observation_from_row, observation_to_row
from tallymark_audit.store.tables import (
    collectors,
    incidents,
    observations,
    progress,
    window_changes,
)
from tallymark_audit.store.upsert import upsert


class FencedError(TallymarkError):
    """Another collector has taken the cluster over; nothing was written."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is counted; times in ms. ``topic_id`` is hex, ``""`` if not known."""

    topic: str
    partition: int
    topic_id: str = ""
    next_offset: int = 0
    leader_epoch: int = -1
    counted_through: int = 0
    high_watermark: int = 0


def take_over(connection: Connection, cluster: str, owner: str, now_ms: int) -> int:
    """Become the cluster's collector: the new generation, which fences every older one off."""
    told = {"owner": owner, "started_at": now_ms, "heartbeat": now_ms}
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    # One statement: two that start at once must not get the same generation.
    statement = (
        dialect.insert(collectors)
        .values(cluster=cluster, generation=1, **told)
        .on_conflict_do_update(
            index_elements=["cluster"],
            set_={"generation": collectors.c.generation + 1, **told},
        )
        .returning(collectors.c.generation)
    )
    generation: int = connection.execute(statement).scalar_one()
    connection.execute(
        update(progress).where(progress.c.cluster == cluster).values(generation=generation)
    )
    return generation


def fence(
    connection: Connection,
    cluster: str,
    generation: int,
    now_ms: int,
    discovered_through: int | None = None,
) -> None:
    """Hold the cluster for this transaction. FencedError: it has a newer collector."""
    values = {"heartbeat": now_ms}
    if discovered_through is not None:
        values["discovered_through"] = discovered_through
    held = connection.execute(
        update(collectors)
        .where(collectors.c.cluster == cluster, collectors.c.generation == generation)
        .values(**values)
    )
    if held.rowcount != 1:
        owner = connection.scalar(select(collectors.c.owner).where(collectors.c.cluster == cluster))
        raise FencedError(f"the collector of {cluster} is now {owner or 'another one'}")


def load_positions(connection: Connection, cluster: str) -> list[Position]:
    """How far every partition of the cluster is counted."""
    fields = [progress.c[name] for name in Position.__slots__]
    query = select(*fields).where(progress.c.cluster == cluster)
    return [Position(**row) for row in connection.execute(query).mappings()]


def add_positions(
    connection: Connection, cluster: str, generation: int, new: Iterable[Position]
) -> None:
    """Begin to count these partitions."""
    rows = [_position_row(cluster, generation, position) for position in new]
    upsert(connection, progress, rows)


def move(connection: Connection, cluster: str, generation: int, start: int, to: Position) -> None:
    """The partition is counted from ``start`` up to where ``to`` says. FencedError: it was not at
    ``start`` any more, or not this generation's."""
    moved = connection.execute(
        update(progress)
        .where(
            progress.c.cluster == cluster,
            progress.c.topic == to.topic,
            progress.c.partition == to.partition,
            progress.c.next_offset == start,
            progress.c.generation == generation,
        )
        .values({name: getattr(to, name) for name in Position.__slots__})
    )
    if moved.rowcount != 1:
        raise FencedError(f"{cluster} {to.topic}-{to.partition} was moved from {start} by another")


def load_observations(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    keys: Iterable[CellKey],
) -> dict[CellKey, Observation]:
    """The cells as counted so far in one partition, of those asked for."""
    wanted = set(keys)
    found: dict[CellKey, Observation] = {}
    for windows in chunks(sorted({key.window for key in wanted})):
        query = select(observations).where(
            observations.c.cluster == cluster,
            observations.c.topic == topic,
            observations.c.window.in_(windows),
            observations.c.tier == "cluster",
            observations.c.seen_topic == topic,
            observations.c.seen_partition == partition,
        )
        for row in connection.execute(query).mappings():
            seen = observation_from_row(row)
            if seen.key in wanted:
                found[seen.key] = seen
    return found


def save_observations(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    cells: Iterable[Observation],
    now_ms: int,
) -> None:
    """Write cells counted in a partition, and note that their windows changed."""
    cells = list(cells)
    rows = [observation_to_row(cluster, topic, partition, seen) for seen in cells]
    upsert(connection, observations, rows)
    touch(connection, cluster, {(seen.key.topic, seen.key.window) for seen in cells}, now_ms)


def cells_beyond(
    connection: Connection, cluster: str, topic: str, partition: int, offset: int
) -> list[Observation]:
    """The cells that hold a record of the partition at ``offset`` or later."""
    query = select(observations).where(*_in_partition(cluster, topic, partition, offset))
    return [observation_from_row(row) for row in connection.execute(query).mappings()]


def replace_beyond(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    offset: int,
    rebuilt: Mapping[CellKey, Observation],
    now_ms: int,
) -> None:
    """Put rebuilt cells in place of those :func:`cells_beyond` gives; the others are gone."""
    gone = cells_beyond(connection, cluster, topic, partition, offset)
    connection.execute(
        delete(observations).where(*_in_partition(cluster, topic, partition, offset))
    )
    touch(connection, cluster, {(seen.key.topic, seen.key.window) for seen in gone}, now_ms)
    save_observations(connection, cluster, topic, partition, rebuilt.values(), now_ms)


def detach_offsets(connection: Connection, cluster: str, topic: str) -> None:
    """The topic was re-created: the offsets of what was counted mean nothing any more."""
    connection.execute(
        update(observations)
        .where(observations.c.cluster == cluster, observations.c.seen_topic == topic)
        .values(first_offset=-1, last_offset=-1)
    )


def touch(
    connection: Connection, cluster: str, windows: Iterable[tuple[str, int]], now_ms: int
) -> None:
    """Note that counts or claims of these (topic, window) changed."""
    rows: list[Row] = [
        {"cluster": cluster, "topic": topic, "window": window, "changed_at": now_ms}
        for topic, window in sorted(windows)
    ]
    upsert(connection, window_changes, rows)


def add_incident(
    connection: Connection,
    cluster: str,
    kind: str,
    reason: str,
    now_ms: int,
    topic: str = "",
    partition: int = -1,
    from_offset: int = -1,
    to_offset: int = -1,
) -> None:
    """Record what happened to a log: offsets ``from_offset`` up to ``to_offset``, excluded."""
    connection.execute(
        incidents.insert().values(
            cluster=cluster,
            topic=topic,
            partition=partition,
            from_offset=from_offset,
            to_offset=to_offset,
            at=now_ms,
            kind=kind,
            reason=reason,
        )
    )


def add_gap(connection: Connection, cluster: str, mirror: str, gap: Gap) -> None:
    """Record what a mirror into the cluster could not copy. Mirrors repeat themselves until they
    are heard: a gap that is known changes nothing."""
    row = {
        "cluster": cluster,
        "topic": gap.topic,
        "partition": gap.partition,
        "from_offset": gap.first_offset,
        "to_offset": gap.last_offset + 1,
        "at": gap.at,
        "kind": "gap",
        "reason": f"{mirror} could not copy these upstream offsets: {gap.reason}",
    }
    same = [incidents.c[name] == value for name, value in row.items() if name != "at"]
    if connection.execute(select(incidents.c.id).where(*same).limit(1)).first() is None:
        connection.execute(incidents.insert().values(**row))


def _in_partition(cluster: str, topic: str, partition: int, offset: int) -> Any:
    return (
        observations.c.cluster == cluster,
        observations.c.seen_topic == topic,
        observations.c.seen_partition == partition,
        observations.c.last_offset >= offset,
    )


def _position_row(cluster: str, generation: int, position: Position) -> Row:
    fields = {name: getattr(position, name) for name in Position.__slots__}
    return {"cluster": cluster, "generation": generation, **fields}
