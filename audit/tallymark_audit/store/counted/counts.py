"""What collectors count: the observations of each cell, by the partition that holds them.

They are written in one transaction with the offset up to which they hold (:mod:`.positions`). Rows
that several collectors of a cluster write are written last and in order, so that no two wait for
each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

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
from tallymark_audit.store.schema.tables import observations, window_changes
from tallymark_audit.store.schema.upsert import upsert


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
    # This row is locked first: another process that archives the window has to end before we go on.
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
