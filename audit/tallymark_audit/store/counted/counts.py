"""What collectors write: counts and the offsets up to which they hold, in one transaction.

Each partition is somebody's: who begins to count it takes the next generation of it
(:func:`take`), and moves it from exactly the offset the counting began at (:func:`move`), which
also locks its row; whoever had it before moves nothing any more. So it does not matter how sure a
collector can be that a partition is still its own. One of a cluster's collectors is in charge of
what is done once a cluster (:func:`take_over`, :func:`fence`).

Rows that several collectors of a cluster write are written last and in order, so that no two wait
for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.absurd import AbsurdError, reason_of
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.sides import Observation
from tallymark_audit.store.counted import archive
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.rows import (
    Row,
    RowLike,
    key_from_row,
    observation_from_row,
    observation_to_row,
)
from tallymark_audit.store.schema.tables import collectors, observations, progress, window_changes
from tallymark_audit.store.schema.upsert import insert_new, upsert


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
    ``generation`` is its collector's."""

    topic: str
    partition: int
    topic_id: str = ""
    next_offset: int = 0
    leader_epoch: int = -1
    counted_through: int = 0
    high_watermark: int = 0
    generation: int = 0

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
    """Be in charge of the cluster for this transaction. FencedError: somebody newer is."""
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
    """When the collector in charge was last heard of, in ms; 0 if there is none."""
    query = select(collectors.c.heartbeat).where(collectors.c.cluster == cluster)
    return connection.scalar(query) or 0


def step_down(connection: Connection, cluster: str, generation: int) -> None:
    """Nobody is in charge any more, if it was this one: the next need not wait."""
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
    """Become the collector of these partitions: they go on where the store says, in a new
    generation; those it does not know yet begin as given."""
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
    """The partition is counted from ``start`` up to where ``to`` says. PartitionFencedError: it was
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


def load_observations(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    keys: Iterable[CellKey],
    absurd: dict[CellKey, str] | None = None,
) -> dict[CellKey, Observation]:
    """The cells as counted so far in one partition, of those asked for. AbsurdError: one of them
    makes no sense; if ``absurd`` is given these are put there instead, with the reason."""
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
            _add_cell(found, row, wanted, absurd)
    # After the tables: a window that is archived in between is seen in one of both.
    windows_left = {key.window for key in wanted - found.keys()}
    broken: set[int] | None = None if absurd is None else set()
    for packed in archive.packed_rows(
        connection, observations, cluster, topic, windows_left, broken
    ):
        if packed["seen_partition"] == partition and key_from_row(packed) not in found:
            _add_cell(found, packed, wanted, absurd)
    if absurd is not None and broken:
        unread = "its archived cells cannot be unpacked"
        absurd |= {key: unread for key in wanted - found.keys() if key.window in broken}
    return found


def _add_cell(
    found: dict[CellKey, Observation],
    row: RowLike,
    wanted: set[CellKey],
    absurd: dict[CellKey, str] | None,
) -> None:
    key = key_from_row(row)
    if key not in wanted:
        return
    try:
        found[key] = observation_from_row(row)
    except AbsurdError as error:
        if absurd is None:
            raise
        absurd[key] = reason_of(error)


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
    put_observations(connection, cluster, topic, partition, cells)
    touch(connection, cluster, windows_of(cells), now_ms)


def put_observations(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    cells: Iterable[Observation],
) -> None:
    """Write cells counted in a partition; the caller has to :func:`touch` their windows."""
    rows = [observation_to_row(cluster, topic, partition, seen) for seen in cells]
    upsert(connection, observations, rows)


def windows_of(cells: Iterable[Observation]) -> set[tuple[str, int]]:
    """The (topic, window) of cells."""
    return {(seen.key.topic, seen.key.window) for seen in cells}


def cells_beyond(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    offset: int,
    absurd: set[int] | None = None,
) -> list[Observation]:
    """The cells that hold a record of the partition at ``offset`` or later. One that makes no sense
    is left out: it stays what it is, and its window UNKNOWN; if ``absurd`` is given its window is
    put there."""
    doubtful = set[int]() if absurd is None else absurd
    query = select(observations).where(*_in_partition(cluster, topic, partition, offset))
    rows: list[Row] = [dict(row) for row in connection.execute(query).mappings()]
    packed = archive.windows_beyond(connection, cluster, topic, partition, offset)
    rows += [
        row
        for row in archive.packed_rows(connection, observations, cluster, topic, packed, doubtful)
        if row["seen_partition"] == partition and row["last_offset"] >= offset
    ]
    found: dict[CellKey, Observation] = {}
    nonsense: dict[CellKey, str] = {}
    for row in rows:
        _add_cell(found, row, {key_from_row(row)}, nonsense)
    doubtful |= {key.window for key in nonsense}
    return list(found.values())


def cells_of_window(
    connection: Connection, cluster: str, topic: str, partition: int, window: int
) -> list[Observation]:
    """The cells of a window as counted in one partition."""
    query = select(observations).where(
        observations.c.cluster == cluster,
        observations.c.topic == topic,
        observations.c.window == window,
        observations.c.tier == "cluster",
        observations.c.seen_topic == topic,
        observations.c.seen_partition == partition,
    )
    rows: list[Row] = [dict(row) for row in connection.execute(query).mappings()]
    found = {seen.key: seen for seen in map(observation_from_row, rows)}
    for row in archive.packed_rows(connection, observations, cluster, topic, [window]):
        if row["seen_partition"] == partition:
            seen = observation_from_row(row)
            found.setdefault(seen.key, seen)
    return list(found.values())


def replace_beyond(
    connection: Connection,
    cluster: str,
    topic: str,
    partition: int,
    offset: int,
    rebuilt: Mapping[CellKey, Observation],
    now_ms: int,
) -> None:
    """Put rebuilt cells in place of those :func:`cells_beyond` gives; the others are gone. A row
    that makes no sense stays, so that its window is UNKNOWN and not judged without it."""
    absurd: set[int] = set()
    gone = cells_beyond(connection, cluster, topic, partition, offset, absurd)
    windows = windows_of(gone) | {(topic, window) for window in absurd}
    touch(connection, cluster, windows, now_ms)  # which unpacks them
    if gone:
        bound = [f"the_{name}" for name in CellKey._fields]
        keys = [dict(zip(bound, seen.key, strict=True)) for seen in gone]
        connection.execute(delete(observations).where(*_the_cell(cluster, topic, partition)), keys)
    save_observations(connection, cluster, topic, partition, rebuilt.values(), now_ms)


def detach_offsets(
    connection: Connection, cluster: str, topic: str, partition: int, now_ms: int
) -> None:
    """The topic was re-created: the offsets of what was counted mean nothing any more."""
    connection.execute(
        update(observations)
        .where(
            observations.c.cluster == cluster,
            observations.c.seen_topic == topic,
            observations.c.seen_partition == partition,
        )
        .values(first_offset=-1, last_offset=-1)
    )
    archive.detach(connection, cluster, topic, partition, now_ms)


def touch(
    connection: Connection, cluster: str, windows: Iterable[tuple[str, int]], now_ms: int
) -> None:
    """Note that counts or claims of these (topic, window) changed. An archived one is unpacked."""
    by_topic: dict[str, list[int]] = {}
    for topic, window in sorted(windows):
        by_topic.setdefault(topic, []).append(window)
    rows: list[Row] = [
        {"cluster": cluster, "topic": topic, "window": window, "changed_at": now_ms}
        for topic, some in by_topic.items()
        for window in some
    ]
    # This row is locked first: who archives the window meanwhile has to end before we go on.
    upsert(connection, window_changes, rows)
    for topic, some in by_topic.items():
        archive.restore(connection, cluster, topic, some)


def _in_partition(cluster: str, topic: str, partition: int, offset: int) -> Any:
    return (
        observations.c.cluster == cluster,
        observations.c.seen_topic == topic,
        observations.c.seen_partition == partition,
        observations.c.last_offset >= offset,
    )


def _the_cell(cluster: str, topic: str, partition: int) -> Any:
    """The row of one cell as counted in a partition; its key is bound as ``the_topic`` etc."""
    key = [observations.c[name] == bindparam(f"the_{name}") for name in CellKey._fields]
    return (
        observations.c.tier == "cluster",
        observations.c.cluster == cluster,
        observations.c.seen_topic == topic,
        observations.c.seen_partition == partition,
        *key,
    )


def _owner(connection: Connection, cluster: str) -> str:
    query = select(collectors.c.owner).where(collectors.c.cluster == cluster)
    return connection.scalar(query) or "another one"


def _insert(connection: Connection, table: Any) -> Any:
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def _position_row(cluster: str, position: Position) -> Row:
    return {"cluster": cluster, **{name: getattr(position, name) for name in Position.__slots__}}
