"""Healthy windows packed: all observations and claims of a (cluster, topic, window) in one row.

Packing loses nothing that a verdict depends on. A packed window reads as before: every reader of
cells asks :func:`packed_rows` beside the tables. The first write into it unpacks it
(:func:`restore`), so a late copy is a duplication, a late claim or a cut log a loss, exactly as if
the window had never been packed. Only the latency sketches of its cells become one sketch a tier.

The format of ``archive.packed`` is zlib around UTF-8 JSON::

    {"observations": [rows, {column: values, ...}],      values: one a row, or only one if all
     "claims":       [rows, {column: values, ...}]}              rows have the same

without the columns cluster, topic and window, and without those that are at their default. Values
of one column are stored together, since equal values compress well.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Table, delete, select

from tallymark_audit.model import sketches
from tallymark_audit.model.absurd import AbsurdError
from tallymark_audit.store.counted.totals import forget
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import archive, claims, detached, observations
from tallymark_audit.store.schema.upsert import insert_new, upsert

TABLES: Final[Mapping[str, Table]] = {table.name: table for table in (observations, claims)}
_OUTSIDE: Final = frozenset({"cluster", "topic", "window"})
_LEVEL: Final = 6
_CHUNK: Final = 500


def pack(rows: Mapping[str, Sequence[Row]]) -> bytes:
    """The rows of one window, by table."""
    told = {
        name: _columns(TABLES[name], _with_fewer_sketches(some))
        for name, some in rows.items()
        if some
    }
    return zlib.compress(json.dumps(told, separators=(",", ":")).encode(), _LEVEL)


def unpack(packed: bytes, cluster: str, topic: str, window: int) -> dict[str, list[Row]]:
    """The inverse of :func:`pack`, but for latencies."""
    told: dict[str, list[Any]] = json.loads(zlib.decompress(packed))
    where = {"cluster": cluster, "topic": topic, "window": window}
    found: dict[str, list[Row]] = {name: [] for name in TABLES}
    for name, (count, columns) in told.items():
        defaults = {c.name: _default(c) for c in TABLES[name].columns if c.name not in _OUTSIDE}
        rows: list[Row] = [{**where, **defaults} for _ in range(count)]
        for column, values in columns.items():
            for at, row in enumerate(rows):
                row[column] = values[at] if len(values) == count else values[0]
        found[name] = rows
    return found


def packed_rows(
    connection: Connection,
    table: Table,
    cluster: str,
    topic: str,
    windows: Iterable[int],
    absurd: set[int] | None = None,
) -> list[Row]:
    """The rows of ``observations`` or ``claims`` that are packed, of these windows. AbsurdError:
    one of them cannot be unpacked; if ``absurd`` is given these are put there instead.

    A reader outside a snapshot reads the table first: a window that is packed in between is then
    read twice rather than missed, and the table's row of a cell counts."""
    found = _find(connection, cluster, topic, windows, absurd)
    return [row for _, rows in found for row in rows[table.name]]


def restore(connection: Connection, cluster: str, topic: str, windows: Iterable[int]) -> None:
    """Unpack these windows, where they are packed, to write into them. Rows of the tables are newer
    and stay; so does an archive that cannot be unpacked, whose readers get the error."""
    found = _find(connection, cluster, topic, windows, set())
    for _, by_table in found:
        for name, rows in by_table.items():
            insert_new(connection, TABLES[name], rows)
    unpacked = [window for window, _ in found]
    for start in range(0, len(unpacked), _CHUNK):
        some = unpacked[start : start + _CHUNK]
        where = (archive.c.cluster == cluster, archive.c.topic == topic, archive.c.window.in_(some))
        connection.execute(delete(archive).where(*where))
        forget(connection, cluster, topic, some)


def windows_beyond(
    connection: Connection, cluster: str, topic: str, partition: int, offset: int
) -> list[int]:
    """The packed windows that hold a record of the partition at ``offset`` or later."""
    since = _detached(connection, cluster, topic).get(partition, -1)
    query = select(archive.c.window, archive.c.ends).where(
        archive.c.cluster == cluster, archive.c.topic == topic, archive.c.packed_at > since
    )
    return [
        window
        for window, ends in connection.execute(query)
        if any(number == partition and last >= offset for number, last in _pairs(ends))
    ]


def detach(connection: Connection, cluster: str, topic: str, partition: int, now: int) -> None:
    """The offsets of the partition mean nothing in what was packed up to ``now`` (ms)."""
    row = {"cluster": cluster, "topic": topic, "partition": partition, "at": now}
    upsert(connection, detached, [row])


def ends_of(rows: Iterable[Row]) -> list[list[int]]:
    """``archive.ends`` of rows of ``observations``."""
    ends: dict[int, int] = {}
    for row in rows:
        partition = row["seen_partition"]
        ends[partition] = max(ends.get(partition, -1), row["last_offset"])
    return [[partition, last] for partition, last in sorted(ends.items()) if last >= 0]


def partitions_of(ends: Any) -> set[int]:
    """The partitions that ``archive.ends`` names; none where it makes no sense."""
    return {partition for partition, _ in _pairs(ends)}


def _pairs(ends: Any) -> list[list[int]]:
    """``archive.ends``; none where they make no sense."""
    sound = isinstance(ends, list) and all(
        isinstance(end, list) and len(end) == 2 and all(isinstance(n, int) for n in end)
        for end in ends
    )
    return ends if sound else []


def _find(
    connection: Connection,
    cluster: str,
    topic: str,
    windows: Iterable[int],
    absurd: set[int] | None = None,
) -> list[tuple[int, dict[str, list[Row]]]]:
    """The windows among these that are packed, and their rows by table; see :func:`packed_rows`."""
    found: list[RowMapping] = []
    wanted = sorted(set(windows))
    for start in range(0, len(wanted), _CHUNK):
        query = select(archive).where(
            archive.c.cluster == cluster,
            archive.c.topic == topic,
            archive.c.window.in_(wanted[start : start + _CHUNK]),
        )
        found += connection.execute(query).mappings()
    since = _detached(connection, cluster, topic) if found else {}
    unpacked: list[tuple[int, dict[str, list[Row]]]] = []
    for row in found:
        try:
            unpacked.append((row["window"], _rows(row, since)))
        except AbsurdError:
            if absurd is None:
                raise
            absurd.add(row["window"])
    return unpacked


def _rows(row: RowMapping, since: Mapping[int, int]) -> dict[str, list[Row]]:
    try:
        rows = unpack(row["packed"], row["cluster"], row["topic"], row["window"])
    except Exception as error:  # bytes that are anything
        raise AbsurdError(f"its archived cells cannot be unpacked: {error}") from error
    for seen in rows[observations.name]:
        if row["packed_at"] <= since.get(seen["seen_partition"], -1):
            seen["first_offset"] = seen["last_offset"] = -1
    return rows


def _detached(connection: Connection, cluster: str, topic: str) -> dict[int, int]:
    query = select(detached.c.partition, detached.c.at).where(
        detached.c.cluster == cluster, detached.c.topic == topic
    )
    return {row.partition: row.at for row in connection.execute(query)}


def _with_fewer_sketches(rows: Iterable[Row]) -> list[Row]:
    """The sketches of a tier, or of a consumer, in its first row: they are most of a cell."""
    whole: dict[tuple[str, str], sketches.Sketch] = {}
    kept: list[Row] = []
    firsts: dict[tuple[str, str], Row] = {}
    for row in rows:
        kept.append({**row, "latency": []})
        if row["latency"]:
            key = row["tier"], row["reporter"] if row["tier"] in ("consumer", "lake") else ""
            first = firsts.setdefault(key, kept[-1])
            whole[key] = sketches.merged((whole.get(key, {}), sketches.from_store(row["latency"])))
            first["latency"] = sketches.to_list(whole[key])
    return kept


def _columns(table: Table, rows: Sequence[Row]) -> list[Any]:
    columns: dict[str, list[Any]] = {}
    for column in table.columns:
        if column.name in _OUTSIDE:
            continue
        values = [row[column.name] for row in rows]
        if all(value == values[0] for value in values):
            values = values[:1]
        if values != [_default(column)]:
            columns[column.name] = values
    return [len(rows), columns]


def _default(column: Any) -> Any:
    value = column.default.arg if column.default is not None else None
    return [] if callable(value) else value
