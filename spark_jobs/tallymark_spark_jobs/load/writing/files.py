"""The Parquet files that one task writes.

A file's name holds a UUID, so that two attempts at the same span never touch each other's files;
which of them become part of the table is decided by the one commit. A task that fails takes its
files away again; one that is killed leaves orphans, which the sweep finds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import SIDE_FOLDER, Bounds, DataFile
from tallymark_spark_jobs.load.writing.places import place_of

GROUP_ROWS: Final = 1 << 18
GROUP_BYTES: Final = 32 << 20
"""A row group of a file has at most about so much, before compression."""
HELD_BYTES: Final = 96 << 20
"""What all files of a task hold back for their next row groups."""
MOST_OPEN: Final = 16
"""Files that a task has open; the one that was not used for the longest time is closed for another.
Records of more hours than this, in any order, become more and smaller files, never more memory."""
_STATISTICS: Final = ("partition", "offset", "timestamp")
_DICTIONARY: Final = (
    "partition",
    "timestampType",
    "late",
    "topic_id",
    "headers.list.element.key",
)


class DiskFull(UserError):
    """There is no room for the files of a load."""


@dataclass(slots=True)
class _Open:
    """A file that is being written."""

    path: str
    hour: int
    sink: Any
    writer: Any
    metadata: list[Any]
    rows: int = 0
    held: list[Any] = field(default_factory=list)
    held_rows: int = 0
    held_bytes: int = 0


class SpanFiles:
    """The files of one span. Use :meth:`add`, then :meth:`finish`; or :meth:`abandon`."""

    def __init__(
        self,
        storage: Storage,
        topic: str,
        prefix: str,
        schema: pa.Schema,
        target_bytes: int,
        on_time: int = 0,
    ) -> None:
        self._storage = storage
        self._system, self._root = storage.open()
        self._topic = topic
        self._prefix = prefix
        self._schema = schema
        self._target = target_bytes
        self._on_time = on_time
        self._open: dict[int, _Open] = {}  # the last one was used last
        self._held = 0
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def add(self, hour: int, batch: Any) -> None:
        """Rows of one hour. DiskFull."""
        if not batch.num_rows:
            return
        with _clearly(self._storage.location):
            one = self._open.pop(hour, None) or self._begin(hour)
            self._open[hour] = one
            size = batch.nbytes
            one.held.append(batch)
            one.held_rows += batch.num_rows
            one.held_bytes += size
            self._held += size
            if one.held_rows >= GROUP_ROWS or one.held_bytes >= GROUP_BYTES:
                self._write(one)
            while self._held > HELD_BYTES:
                self._write(max(self._open.values(), key=lambda one: one.held_bytes))
            if one.sink.tell() >= self._target:
                self._end(one)

    def side_file(self, kind: str, table: Any) -> str:
        """Write a file that holds no rows of the table; its path."""
        path = f"{SIDE_FOLDER}/{kind}/{self._prefix}-{uuid.uuid4().hex}.parquet"
        with _clearly(self._storage.location):
            self._paths.append(path)
            with self._create(path) as sink:
                pq.write_table(table, sink, compression="zstd")
            self._keep(path)
        return path

    def finish(self) -> tuple[DataFile, ...]:
        """Close all files; what was written. DiskFull."""
        with _clearly(self._storage.location):
            for one in list(self._open.values()):
                self._end(one)
        return tuple(self._done)

    def abandon(self) -> None:
        """Close and remove all of them: nothing will name them."""
        for one in self._open.values():
            with contextlib.suppress(Exception):
                one.writer.close()
            with contextlib.suppress(Exception):
                one.sink.close()
        for path in self._paths:
            with contextlib.suppress(UserError):
                self._storage.delete(path)

    def _create(self, path: str) -> Any:
        where = f"{self._root}/{path}"
        if self._storage.local:  # elsewhere there are no folders
            self._system.create_dir(where.rpartition("/")[0], recursive=True)
        return self._system.open_output_stream(where, compression=None)

    def _keep(self, path: str) -> None:
        """A closed file outlives a power failure: a commit will say that it is there."""
        if not self._storage.local:
            return
        for place in (Path(self._root, path), Path(self._root, path).parent):
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _begin(self, hour: int) -> _Open:
        if len(self._open) >= MOST_OPEN:
            self._end(next(iter(self._open.values())))
        place = place_of(self._topic, hour)
        path = f"{place.folder}/{self._prefix}-{uuid.uuid4().hex}.parquet"
        self._paths.append(path)
        sink = self._create(path)
        metadata: list[Any] = []
        names = set(self._schema.names)
        options: dict[str, Any] = {
            "compression": "zstd",
            "use_dictionary": [one for one in _DICTIONARY if one.partition(".")[0] in names],
            "write_statistics": list(_STATISTICS),
            "metadata_collector": metadata,
        }
        writer = pq.ParquetWriter(sink, self._schema, **options)
        return _Open(path, hour, sink, writer, metadata)

    def _write(self, one: _Open) -> None:
        table = pa.Table.from_batches(one.held, self._schema)
        one.writer.write_table(table, row_group_size=max(1, len(table)))
        self._held -= one.held_bytes
        one.rows += one.held_rows
        one.held, one.held_rows, one.held_bytes = [], 0, 0

    def _end(self, one: _Open) -> None:
        if one.held:
            self._write(one)
        one.writer.close()
        size = one.sink.tell()
        one.sink.close()
        self._keep(one.path)
        del self._open[one.hour]
        (footer,) = one.metadata
        if footer.num_rows != one.rows:
            raise UserError(f"{one.path} holds {footer.num_rows} rows, not {one.rows}")
        late = one.rows if one.hour < self._on_time else 0
        place = place_of(self._topic, one.hour)
        self._done.append(DataFile(one.path, place, one.rows, size, late, _bounds(footer)))


def _bounds(footer: Any) -> tuple[Bounds, ...]:
    """What the file's footer says of the columns that readers look for."""
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    names = [groups[0].column(at).path_in_schema for at in range(groups[0].num_columns)]
    found: list[Bounds] = []
    for name in _STATISTICS:
        if name not in names:
            continue
        each = [group.column(names.index(name)).statistics for group in groups]
        low, high = (min(one.min_raw for one in each), max(one.max_raw for one in each))
        found.append(Bounds(name, low, high, 0))
    return tuple(found)


@contextlib.contextmanager
def _clearly(location: str) -> Any:
    """What the file system refuses, in one line for people."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise DiskFull(
                f"there is no room left in {location}; nothing of this load is in the table",
                "make room, then run the load again: it begins where the table ends",
            ) from error
        raise UserError(f"cannot write into {location}: {error}") from error
