"""Some thousand records that become one Arrow batch: the same columns, from pieces or a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tallymark.protocol.records.compiled.layout import (
    ATTRIBUTES,
    HEADERS,
    KEY,
    KEY_SIZE,
    OFFSET,
    ROWS,
    SCRATCH,
    SIZE,
    STAMP,
    STAMP_SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark.protocol.records.reader import Headers, read_headers
from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.reading import Piece
from tallymark_spark_jobs.source.stamp_runs import StampRun, stamp_runs
from tallymark_spark_jobs.source.tables import Table

_LOG_APPEND_TIME: Final = 0x08

Numbers = NDArray[np.int64]
Values = list[bytes | None]


class Portion(Protocol):
    """Columns of records. ``of_batches``: (records, whether they have the broker's time, whether
    their transaction was aborted) of each batch in turn."""

    def __len__(self) -> int: ...
    def of_batches(self) -> Iterable[tuple[int, bool, bool]]: ...
    def offsets(self) -> Numbers: ...
    def timestamps(self) -> Numbers: ...
    def sizes(self) -> Numbers: ...
    def keys(self) -> Values: ...
    def values(self) -> Values: ...
    def key_column(self) -> Any: ...
    def value_column(self) -> Any: ...
    def headers(self) -> list[Headers]: ...
    def stamp_runs(self) -> list[StampRun]: ...


class PiecePortion:
    """The records of pieces."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._headers = [piece.header for piece in pieces]
        self._aborted = [piece.aborted for piece in pieces]
        self._columns = [piece.columns for piece in pieces]

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def of_batches(self) -> Iterator[tuple[int, bool, bool]]:
        all_of_them = zip(self._columns, self._headers, self._aborted, strict=True)
        for some, header, aborted in all_of_them:
            yield len(some), header.is_log_append_time, aborted

    def offsets(self) -> Numbers:
        return columns.joined([some.offsets for some in self._columns])

    def timestamps(self) -> Numbers:
        return columns.joined([some.timestamps for some in self._columns])

    def sizes(self) -> Numbers:
        return columns.joined([some.sizes() for some in self._columns])

    def keys(self) -> Values:
        return list(chain.from_iterable([some.keys() for some in self._columns]))

    def values(self) -> Values:
        return list(chain.from_iterable([some.values() for some in self._columns]))

    def key_column(self) -> Any:
        return columns.binaries(self.keys())

    def value_column(self) -> Any:
        return columns.binaries(self.values())

    def headers(self) -> list[Headers]:
        return list(chain.from_iterable([some.headers() for some in self._columns]))

    def stamp_runs(self) -> list[StampRun]:
        runs: list[StampRun] = []
        for some in self._columns:
            runs += stamp_runs(some.last_headers("tm"))
        return runs


class TablePortion:
    """The records of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def of_batches(self) -> Iterator[tuple[int, bool, bool]]:
        batches = self._table.batches
        append_time = (batches[:, ATTRIBUTES] & _LOG_APPEND_TIME != 0).tolist()
        yield from zip(batches[:, ROWS].tolist(), append_time, self._table.aborted, strict=True)

    def offsets(self) -> Numbers:
        return self._table.column(OFFSET)

    def timestamps(self) -> Numbers:
        return self._table.column(TIMESTAMP)

    def sizes(self) -> Numbers:
        return self._table.column(SIZE)

    def keys(self) -> Values:
        return self._values(KEY, KEY_SIZE)

    def values(self) -> Values:
        return self._values(VALUE, VALUE_SIZE)

    def key_column(self) -> Any:
        return self._packed(KEY, KEY_SIZE)

    def value_column(self) -> Any:
        return self._packed(VALUE, VALUE_SIZE)

    def headers(self) -> list[Headers]:
        starts = self._table.column(HEADERS)
        return [
            read_headers(source, start)[0]
            for source, first, end in self._sources()
            for start in starts[first:end].tolist()
        ]

    def stamp_runs(self) -> list[StampRun]:
        return stamp_runs(self._values(STAMP, STAMP_SIZE))

    def _values(self, at: int, size: int) -> Values:
        sizes = self._table.column(size)
        if (sizes < 0).all():
            return [None] * len(sizes)
        found: Values = list(self._cut(at, sizes))
        for row in (sizes < 0).nonzero()[0].tolist():
            found[row] = None
        return found

    def _packed(self, at: int, size: int) -> Any:
        sizes = self._table.column(size)
        data = b"" if (sizes <= 0).all() else b"".join(self._cut(at, sizes))
        return columns.packed(data, sizes)

    def _cut(self, at: int, sizes: Numbers) -> Iterator[bytes]:
        starts = self._table.column(at)
        ends = starts + np.maximum(sizes, 0)
        for source, first, end in self._sources():
            bounds = zip(starts[first:end].tolist(), ends[first:end].tolist(), strict=True)
            yield from [source[start:stop] for start, stop in bounds]

    def _sources(self) -> Iterator[tuple[bytes, int, int]]:
        """The bytes, and the rows from which to which their records are."""
        table = self._table
        data, scratch = bytes(table.data), bytes(table.scratch)
        kinds, counts = table.batches[:, SCRATCH], table.batches[:, ROWS]
        ends = counts.cumsum()
        changes = (kinds[1:] != kinds[:-1]).nonzero()[0].tolist()
        first = 0
        for number in (*changes, len(kinds) - 1):
            end = int(ends[number])
            yield (scratch if kinds[number] else data), first, end
            first = end
