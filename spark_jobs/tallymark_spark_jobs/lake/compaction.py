"""Joins small files. Rows, offsets and tallies stay as they are; only files change.

A load adds a file for each task and hour, so a topic that is loaded often has many small ones. They
are read and written again, a few at a time, as one file each, and one commit puts the new files in
place of the old ones. It runs beside loads: a load never waits for it and is never refused because
of it, and it is not refused because of a load. If another compaction, or a deletion, was faster,
its own files are taken away again, and these rows are left for the next time.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tallymark_spark_jobs.lake.columns import written_as
from tallymark_spark_jobs.lake.committing import Busy, Change, CommittedTable
from tallymark_spark_jobs.lake.heads import maintenance
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    PARTITION_COLUMNS,
    Bounds,
    Conflict,
    DataFile,
    Place,
    Snapshot,
)

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST: Final = 4
"""Fewer small files of one hour are not worth being written again."""
COMMIT_BYTES: Final = 1 << 30
"""About so much is joined by one commit: what is lost if another was faster."""
_TRIES: Final = 8
"""Where loads are faster so often, they are left alone until the next time."""
_BATCH_ROWS: Final = 1 << 16
_BATCHES_IN_A_GROUP: Final = 4


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did; ``given_up`` files are as they were, since others changed them in the
    meantime, or always were faster."""

    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    given_up: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(
            self.files_before + other.files_before,
            self.files_after + other.files_after,
            self.bytes_before + other.bytes_before,
            self.bytes_after + other.bytes_after,
            self.given_up + other.given_up,
        )


def compact(
    table: CommittedTable[Any], target_bytes: int, *, job: str, fewest: int = FEWEST
) -> Compacted:
    """Join the table's small files. UserError: files cannot be read or written; what was committed
    until then stays."""
    done = Compacted()
    snapshot = table.open()
    for groups in _commits(joins(snapshot.files(), target_bytes, fewest)):
        done += _join(table, snapshot, groups, job)
        snapshot = table.open()
    return done


def joins(
    files: Iterable[DataFile], target_bytes: int, fewest: int = FEWEST
) -> Iterator[list[DataFile]]:
    """Which files become one: of one place, each smaller than three quarters of the target, and
    together about as large as it. Pure."""
    small: dict[Place, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.bytes * 4 < target_bytes * 3:
            small[file.place].append(file)
    for place in sorted(small):
        group: list[DataFile] = []
        for file in sorted(small[place], key=lambda one: one.path):
            group.append(file)
            if sum(one.bytes for one in group) >= target_bytes:
                yield group
                group = []
        if len(group) >= fewest:
            yield group


def _commits(groups: Iterable[list[DataFile]]) -> Iterator[list[list[DataFile]]]:
    some: list[list[DataFile]] = []
    size = 0
    for group in groups:
        some.append(group)
        size += sum(file.bytes for file in group)
        if size >= COMMIT_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _join(
    table: CommittedTable[Any], snapshot: Snapshot, groups: Sequence[list[DataFile]], job: str
) -> Compacted:
    old = [file for group in groups for file in group]
    new: list[DataFile] = []
    gone = {file.path for file in old}

    def still_there(newer: Snapshot) -> None:
        if not gone <= {file.path for file in newer.files()}:
            raise Conflict(f"{table.location}: the files that were joined are no more there")

    try:
        columns = _columns(snapshot)
        new += (rewritten(table.storage, group, columns) for group in groups)
        still_there(table.open())
        change = Change(new, old, (), (), True, maintenance("compact", job))
        table.change(table.mine(snapshot), change, still_there, tries=_TRIES)
    except (Conflict, Busy):
        for file in new:
            table.storage.delete(file.path)
        return Compacted(given_up=len(old))
    return Compacted(
        len(old), len(new), sum(file.bytes for file in old), sum(file.bytes for file in new)
    )


def _columns(snapshot: Snapshot) -> pa.Schema:
    import pyarrow as pa

    kept = [each for each in snapshot.schema() if each.name not in PARTITION_COLUMNS]
    return written_as(pa.schema(kept))


def rewritten(storage: Storage, files: Sequence[DataFile], columns: pa.Schema) -> DataFile:
    """One file with the rows of these, in their order, a few thousand rows in memory at a time.
    UserError: a file does not hold the rows that the table says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = f"{files[0].place.folder}/joined-{uuid.uuid4().hex}.parquet"
    footers: list[Any] = []
    with storage.writing(path) as sink:
        writer = pq.ParquetWriter(sink, columns, compression="zstd", metadata_collector=footers)
        with writer:
            held: list[pa.RecordBatch] = []
            for batch in _rows(storage, files, columns):
                held.append(batch)
                if len(held) == _BATCHES_IN_A_GROUP:
                    writer.write_table(pa.Table.from_batches(held, columns))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held, columns))
        size = sink.tell()
    rows = sum(file.rows for file in files)
    if footers[0].num_rows != rows:
        storage.delete(path)
        raise storage.broken(
            f"files of {files[0].place.folder} hold {footers[0].num_rows} rows, the table says"
            f" {rows}"
        )
    return DataFile(path, files[0].place, rows, size, 0, bounds_of(footers[0], columns))


def _rows(
    storage: Storage, files: Sequence[DataFile], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """All rows in the table's columns: those that a file lacks are null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        with storage.reading(file.path) as source:
            for batch in pq.ParquetFile(source).iter_batches(_BATCH_ROWS):
                yield pa.RecordBatch.from_arrays(
                    [
                        batch.column(each.name).cast(each.type)
                        if each.name in batch.schema.names
                        else pa.nulls(batch.num_rows, each.type)
                        for each in columns
                    ],
                    schema=columns,
                )


def bounds_of(footer: Any, columns: pa.Schema) -> tuple[Bounds, ...]:
    """What a Parquet file's footer says about its top columns of numbers and times."""
    import pyarrow as pa

    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    names = (
        [groups[0].column(at).path_in_schema for at in range(groups[0].num_columns)]
        if (groups)
        else []
    )
    found = []
    for at, name in zip(count(), names, strict=False):
        where = columns.get_field_index(name)
        if where < 0 or not (
            pa.types.is_integer(columns.field(where).type)
            or pa.types.is_timestamp(columns.field(where).type)
        ):
            continue
        stats = [group.column(at).statistics for group in groups]
        if all(one is not None and one.has_min_max and one.has_null_count for one in stats):
            found.append(
                Bounds(
                    name,
                    min(one.min_raw for one in stats),
                    max(one.max_raw for one in stats),
                    sum(one.null_count for one in stats),
                )
            )
    return tuple(found)
