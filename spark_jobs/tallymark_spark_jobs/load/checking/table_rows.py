"""From the files of a table to tallies: what is really there, counted without the log.

The stamp of a row is in its headers, as it was in the log. Nothing but the files that the snapshot
names is read, a group of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq

from tallymark.errors import UserError
from tallymark_spark_jobs.counting.counter import CellCounter
from tallymark_spark_jobs.counting.tally import CellTally, merged

if TYPE_CHECKING:
    from tallymark_spark_jobs.lake.storage import Storage
    from tallymark_spark_jobs.lake.table import DataFile, Place

HOUR_MS = 3_600_000
pc: Any = compute


@dataclass(frozen=True, slots=True)
class Counting:
    """How rows of a topic are counted: those of windows from ``start`` (included; None: all) to
    ``end`` (excluded), ms. ``contents``: keys and values are hashed, which the rows must have."""

    topic: str
    window_ms: int
    start: int | None
    end: int
    contents: bool

    def touches(self, place: Place) -> bool:
        """Whether files of that hour may have such rows. The last hour there is holds all times
        that are no date."""
        hour = datetime.fromisoformat(f"{place.date}T{place.hour}:00:00+00:00")
        begins = int(hour.timestamp() * 1000)
        return begins < self.end and (self.start is None or begins + HOUR_MS > self.start)


@dataclass(frozen=True, slots=True)
class Counted:
    """``lost``: the files that the table names and that are not there, or cannot be read as
    Parquet, each with the reason."""

    tallies: list[CellTally]
    rows: int
    lost: list[str]


class Rows:
    """Rows of one partition, as a counter takes the records of a batch (no transaction of theirs
    was aborted)."""

    aborted = False

    def __init__(self, rows: pa.Table, contents: bool) -> None:
        self._rows = rows.combine_chunks()
        self._contents = contents

    @property
    def columns(self) -> Any:
        """Has what a counter asks of :class:`~tallymark.protocol.records.columns.RecordColumns`."""
        return self

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @cached_property
    def offsets(self) -> list[int]:
        """The offsets, in the order of the file."""
        found: list[int] = self._rows["offset"].to_pylist()
        return found

    @property
    def timestamps(self) -> list[int]:
        """ms."""
        micros: list[int] = self._rows["timestamp"].cast(pa.int64()).to_pylist()
        return [one // 1000 for one in micros]

    def last_headers(self, name: str) -> list[bytes | None]:
        """The value of each row's last header of that name; None: it has none."""
        found: list[bytes | None] = [None] * len(self)
        if not self:
            return found
        headers = self._rows["headers"].combine_chunks()
        pairs = pc.list_flatten(headers)
        named = pc.equal(pc.struct_field(pairs, "key"), name)
        places = pc.list_parent_indices(headers).filter(named).to_pylist()
        values = pc.struct_field(pairs, "value").filter(named).to_pylist()
        for place, value in zip(places, values, strict=True):
            found[place] = value or b""
        return found

    def sizes(self) -> list[int]:
        """Bytes of key and value; 0 of rows whose values are decoded."""
        if not self._contents:
            return [0] * len(self)
        sizes = [pc.fill_null(pc.binary_length(self._rows[one]), 0) for one in ("key", "value")]
        found: list[int] = pc.add(*sizes).to_pylist()
        return found

    def keys(self) -> list[bytes | None]:
        """The keys."""
        found: list[bytes | None] = self._rows["key"].to_pylist()
        return found

    def values(self) -> list[bytes | None]:
        """The values."""
        found: list[bytes | None] = self._rows["value"].to_pylist()
        return found


def count_rows(files: Iterable[DataFile], storage: Storage, how: Counting) -> Counted:
    """Count what these files hold. UserError: the place cannot be reached, so nothing is known."""
    tallies: list[CellTally] = []
    lost: list[str] = []
    counters: dict[int, CellCounter] = {}
    rows = 0
    for file in files:
        if not how.touches(file.place):
            continue
        try:
            for some in _groups(file, storage, how):
                rows += some.num_rows
                for partition, mine in _by_partition(some):
                    counter = counters.get(partition)
                    if counter is None:
                        counter = counters[partition] = _counter(how, partition)
                    counter.add(Rows(mine, how.contents))
                    if counter.full:
                        tallies += counter.tallies()
                        counter.clear()
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            why = "it is gone" if isinstance(error, FileNotFoundError) else str(error)
            lost.append(f"{storage.address(file.path)}: {why}")
        except OSError as error:
            raise UserError(f"{storage.address(file.path)}: cannot be read: {error}") from error
    for counter in counters.values():
        tallies += counter.tallies()
    return Counted(merged(tallies), rows, lost)


def _counter(how: Counting, partition: int) -> CellCounter:
    first = -(1 << 63) if how.start is None else how.start
    return CellCounter(how.topic, partition, how.window_ms, how.contents, times=(first, how.end))


def _groups(file: DataFile, storage: Storage, how: Counting) -> Iterator[pa.Table]:
    """The rows of a file, group by group."""
    names = ["partition", "offset", "timestamp", "headers"]
    names += ["key", "value"] if how.contents else []
    system, root = storage.open()
    with pq.ParquetFile(f"{root}/{file.path}", filesystem=system) as parquet:
        for number in range(parquet.num_row_groups):
            yield parquet.read_row_group(number, names)


def _by_partition(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    found: list[int] = pc.unique(rows["partition"]).to_pylist()
    for partition in found:
        alone = len(found) == 1
        yield partition, rows if alone else rows.filter(pc.equal(rows["partition"], partition))
