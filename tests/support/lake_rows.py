"""Rows for tables of the lake, as tasks of a load land them; and what a table then holds."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tallymark_audit.model.cells import CellKey
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.lake.table import (
    Append,
    Bounds,
    DataFile,
    LakeTable,
    Manifest,
    OffsetRange,
    PartitionKey,
    Place,
    Snapshot,
)

ROWS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
PLACE = Place("page-views", "2026-01-31", "08")
HOUR_US = 1_769_846_400_000_000
"""2026-01-31 08:00 UTC."""


def key(partition: int, topic_id: str = "topic-id") -> PartitionKey:
    return PartitionKey("cluster-id", topic_id, "page-views", partition)


def tally(partition: int, start: int, end: int) -> CellTally:
    cell = CellKey("page-views", partition, HOUR_US // 1000, "web-1", "00000000000000ab")
    return CellTally(
        cell, False, end - start, 0, end - start, 0, ((start, end - 1),), (), start, end,
        partition, partition, start, end - 1, HOUR_US // 1000, HOUR_US // 1000,
    )  # fmt: skip


def land(
    location: str,
    span: OffsetRange,
    *,
    schema: pa.Schema = ROWS,
    place: Place = PLACE,
    tallies: tuple[CellTally, ...] | None = None,
    late: int = 0,
) -> Manifest:
    """One task: writes a file of a row an offset, under a name of its own."""
    offsets = range(span.start, span.end)
    columns: dict[str, list[object]] = {
        "partition": [span.key.partition for _ in offsets],
        "offset": list(offsets),
        "timestamp": [HOUR_US + offset for offset in offsets],
    }
    rows = [
        pa.array(columns.get(field.name, [None] * len(offsets)), field.type) for field in schema
    ]
    path = Path(location, place.folder, f"{span.key.partition}-{span.start}-{uuid.uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(rows, schema=schema), path)
    count = len(offsets)
    stats = (
        Bounds("offset", span.start, span.end - 1, 0),
        Bounds("timestamp", HOUR_US + span.start, HOUR_US + span.end - 1, 0),
    )
    file = DataFile(str(path.relative_to(location)), place, count, path.stat().st_size, late, stats)
    counted = (tally(span.key.partition, span.start, span.end),) if tallies is None else tallies
    return Manifest(span, (file,), count, tallies=counted)


def append(location: str, *spans: OffsetRange, job: str = "job", **more: object) -> Append:
    """A load without a fault: two tasks a partition, where there is enough for two."""
    manifests = []
    for span in spans:
        middle = (span.start + span.end) // 2
        parts = [(span.start, middle), (middle, span.end)]
        manifests += [
            land(location, OffsetRange(span.key, *part), **more)  # type: ignore[arg-type]
            for part in parts
            if part[0] < part[1]
        ]
    schema = more.get("schema", ROWS)
    assert isinstance(schema, pa.Schema)
    return Append(job, spans, tuple(manifests), schema)


def load(table: LakeTable, partition: int, end: int, job: str = "job", **more: object) -> None:
    """What the load job does: reads the offset in the snapshot, and commits on it."""
    snapshot = table.open()
    start = table.offsets(snapshot).get(key(partition), 0)
    span = OffsetRange(key(partition), start, end)
    table.commit(snapshot, append(table.location, span, job=job, **more))


def held(location: str, snapshot: Snapshot) -> Counter[tuple[int, int]]:
    """Partition and offset of every row of the snapshot, read from its files."""
    found: Counter[tuple[int, int]] = Counter()
    for file in snapshot.files():
        rows = pq.ParquetFile(Path(location, file.path)).read(columns=["partition", "offset"])
        found.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert rows.num_rows == file.rows
    return found


def once(*spans: tuple[int, int, int]) -> Counter[tuple[int, int]]:
    """Every offset of (partition, start, end), once."""
    return Counter((part, offset) for part, *ends in spans for offset in range(*ends))


def files_on_disk(location: str, places: Iterable[str] = ("topic=*",)) -> set[str]:
    """The data files that lie below the location, named by a commit or not."""
    return {
        str(path.relative_to(location))
        for place in places
        for path in Path(location).glob(f"{place}/**/*.parquet")
    }
