"""Records that could not be made rows: the files that hold them, and which cells they are of.

A commit names these files (``side_files``), so they come into the lake with the rows beside them,
or not at all. A record in one of them is accounted for: the audit takes it for explained.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark_audit.model.cells import CellKey, window_of
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import SIDE_FOLDER
from tallymark_spark_jobs.load.writing.rows import micros
from tallymark_spark_jobs.source.rows import HEADER, TIMESTAMP

if TYPE_CHECKING:
    from tallymark_audit.reporters.lake import LakeTally
    from tallymark_spark_jobs.load.writing.rows import Records

KIND: Final = "quarantine"
"""The folder of such files below :data:`~tallymark_spark_jobs.lake.table.SIDE_FOLDER`."""

POISON: Final = pa.schema(
    [
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        pa.field("headers", pa.list_(pa.field("element", HEADER))),
        ("topic_id", pa.string()),
    ]
)
"""The columns of a quarantine file: why, and the record as it is."""


@dataclass(slots=True)
class Poisoned:
    """The quarantined records of one cell: how many, how large, and their sequences."""

    count: int = 0
    bytes: int = 0
    sequences: list[int] = field(default_factory=list[int])


def poison_rows(records: Records, bad: Sequence[tuple[int, str]]) -> Any:
    """A table of :data:`POISON`: of the records those at ``bad`` places, with why."""
    found: dict[str, list[Any]] = {name: [] for name in POISON.names}
    key, portion = records.key, records.portion
    keys, values, headers = portion.keys(), portion.values(), portion.headers()
    for row, why in bad:
        one = (
            why,
            keys[row],
            values[row],
            key.topic,
            key.partition,
            int(records.offsets[row]),
            micros(int(records.timestamps[row])),
            [{"key": name, "value": value} for name, value in headers[row]] or None,
            key.topic_id or None,
        )
        for name, value in zip(POISON.names, one, strict=True):
            found[name].append(value)
    return pa.table(found, schema=POISON)


def quarantined_cells(
    storage: Storage, side_files: Iterable[str], window_ms: int
) -> dict[CellKey, Poisoned]:
    """The cells of what the quarantine files among ``side_files`` hold. UserError: one cannot be
    read."""
    found: dict[CellKey, Poisoned] = defaultdict(Poisoned)
    for rows in _tables(storage, side_files):
        times = rows["timestamp"].cast(pa.int64()).to_pylist()
        for row, micro in zip(rows.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
            cell = found[_cell(row, headers, window_of(micro // 1000, window_ms))]
            cell.count += 1
            cell.bytes += len(row["key"] or b"") + len(row["value"] or b"")
            stamp = stamp_of(headers)
            if isinstance(stamp, Stamp):
                cell.sequences.append(stamp.sequence)
    return dict(found)


def quarantined_offsets(
    storage: Storage, side_files: Iterable[str]
) -> dict[tuple[str, int], RangeSet]:
    """The offsets of these records, by the topic's id and partition. UserError: a file cannot be
    read."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rows in _tables(storage, side_files):
        for row in rows.select(["topic_id", "partition", "offset"]).to_pylist():
            found[row["topic_id"] or "", row["partition"]].append(row["offset"])
    return {place: RangeSet.of(offsets) for place, offsets in found.items()}


def without(tally: LakeTally, poison: Mapping[CellKey, Poisoned]) -> LakeTally:
    """A tally of all records of a cell, as the one of its rows and of its quarantined records."""
    found = poison.get(tally.key)
    if found is None:
        return tally
    gone = RangeSet.of(found.sequences)
    return replace(
        tally,
        count=tally.count - found.count,
        bytes=tally.bytes - found.bytes,
        ranges=(RangeSet(tally.ranges) - gone).ranges,
        quarantined=gone.ranges,
        quarantined_count=found.count,
        blocks=(),  # of contents that are not all in the table
    )


def _tables(storage: Storage, side_files: Iterable[str]) -> Iterator[Any]:
    for path in side_files:
        if path.startswith(f"{SIDE_FOLDER}/{KIND}/"):
            yield pq.read_table(pa.BufferReader(storage.read(path)))


def _cell(row: Mapping[str, Any], headers: Iterable[tuple[str, Any]], window: int) -> CellKey:
    stamp = stamp_of(headers)
    if isinstance(stamp, Stamp) and "\0" not in stamp.server:
        return CellKey(row["topic"], stamp.partition, window, stamp.server, stamp.instance.hex())
    return CellKey(row["topic"], row["partition"], window, "", "")
