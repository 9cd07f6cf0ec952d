"""Records as rows of a table, straight from the columns of their batches.

The columns are those of the source, with ``late`` for rows that came when their hour had long
ended; topic, date and hour are in the names of the folders. Some ten thousand records become one
batch of Arrow, which mostly lies within one hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark.protocol.records.compiled.layout import HEADERS, ROWS, SCRATCH, STAMP, STAMP_SIZE
from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.portions import PiecePortion, TablePortion
from tallymark_spark_jobs.source.rows import HEADER, TIMESTAMP
from tallymark_spark_jobs.source.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallymark.protocol.records.reader import Headers
    from tallymark_spark_jobs.lake.table import PartitionKey
    from tallymark_spark_jobs.source.portions import Portion
    from tallymark_spark_jobs.source.reading import Piece

RAW_ROWS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.field("element", HEADER))),
        ("late", pa.bool_()),
        ("topic_id", pa.string()),
    ]
)
"""The columns of a table of raw records. ``timestampType`` is 0 for the producer's time, 1 for the
broker's; ``headers`` is null where there are none. ``topic_id`` distinguishes the records of a
topic from those of another one that had its name before: partition and offset alone do not. It is
null if the brokers have no such ids."""

_HEADERS: Final = RAW_ROWS.field("headers").type
_LAST_MS: Final = (2**63 - 1) // 1000
_ONE_STAMP: Final = b"\x02\x04tm"
"""The first bytes of the headers of a record that has one header, the stamp."""


class Records:
    """Some records of one partition, in the order of the log. Those of aborted transactions are
    among them; ``committed`` marks the others."""

    def __init__(self, key: PartitionKey, source: Sequence[Piece] | Table) -> None:
        self.key = key
        self.portion: Portion = (
            TablePortion(source) if isinstance(source, Table) else PiecePortion(source)
        )
        self._table = source if isinstance(source, Table) else None
        self.offsets: NDArray[np.int64] = self.portion.offsets().copy()
        self.timestamps: NDArray[np.int64] = self.portion.timestamps()
        told = list(self.portion.of_batches())
        counts = [rows for rows, _, _ in told]
        self._types = np.repeat(np.array([one for _, one, _ in told], np.int32), counts)
        self.committed = np.repeat(np.array([not one for _, _, one in told], np.bool_), counts)

    def __len__(self) -> int:
        return len(self.offsets)

    def raw(self, late: NDArray[np.bool_]) -> Any:
        """A batch of :data:`RAW_ROWS`, a row a record."""
        made = [self.portion.key_column(), self.portion.value_column(), *self.log_columns(late)]
        return pa.RecordBatch.from_arrays(made, schema=RAW_ROWS)

    def log_columns(self, late: NDArray[np.bool_]) -> list[Any]:
        """All columns of :data:`RAW_ROWS` but key and value."""
        rows, topic_id = len(self), self.key.topic_id
        return [
            columns.numbers(np.full(rows, self.key.partition, np.int32), pa.int32()),
            columns.numbers(self.offsets, pa.int64()),
            columns.numbers(self.timestamps.clip(-_LAST_MS, _LAST_MS) * 1000, TIMESTAMP),
            columns.numbers(self._types, pa.int32()),
            self._headers(),
            columns.booleans(late.tolist()),
            columns.constant(topic_id, rows) if topic_id else pa.nulls(rows, pa.string()),
        ]

    def _headers(self) -> Any:
        """Null where a record has none, as in Spark's Kafka source."""
        if self._table is not None and _stamps_alone(self._table):
            stamps = list(chain.from_iterable(_cut(self._table)))
            return _one_each(STAMP_HEADER, stamps)
        return header_column(self.portion.headers())


def micros(timestamp: int) -> int:
    """Kafka's milliseconds as microseconds in 64 bits; what these do not hold becomes the last time
    there is."""
    return max(-_LAST_MS, min(timestamp, _LAST_MS)) * 1000


def header_column(headers: Sequence[Headers]) -> Any:
    """Null where a record has none."""
    pairs = list(chain.from_iterable(headers))
    names = [name for name, _ in pairs]
    sizes: list[int | None] = list(map(len, headers))
    one_each = bool(names) and len(pairs) == len(sizes) and 0 not in sizes
    if one_each and names.count(names[0]) == len(names):
        return _one_each(names[0], [value for _, value in pairs])
    items = [columns.strings(names), columns.binaries([value for _, value in pairs])]
    sizes = [size or None for size in sizes]
    return columns.lists(_HEADERS, sizes, columns.structs(HEADER, items))


def _one_each(name: str, values: Sequence[bytes | memoryview | None]) -> Any:
    """The column of records that have one header of that name each."""
    rows = len(values)
    items = columns.structs(HEADER, [columns.constant(name, rows), columns.binaries(values)])
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32))
    return pa.Array.from_buffers(_HEADERS, rows, [None, offsets], 0, 0, [items])


def _stamps_alone(table: Table) -> bool:
    """Whether the records of a table have no other header than their stamp."""
    if (table.column(STAMP_SIZE) <= 0).any():
        return False
    starts = table.column(HEADERS)
    for source, first, end in _sources(table):
        found = np.frombuffer(source, np.uint8)
        for place, byte in enumerate(_ONE_STAMP):
            if (found[starts[first:end] + place] != byte).any():
                return False
    return True


def _cut(table: Table) -> Iterator[list[bytes]]:
    starts = table.column(STAMP)
    ends = starts + table.column(STAMP_SIZE)
    for source, first, end in _sources(table):
        bounds = zip(starts[first:end].tolist(), ends[first:end].tolist(), strict=True)
        yield [source[start:stop] for start, stop in bounds]


def _sources(table: Table) -> Iterator[tuple[bytes, int, int]]:
    """The bytes, and the rows from which to which their records are."""
    kinds, ends = table.batches[:, SCRATCH], table.batches[:, ROWS].cumsum()
    changes = (kinds[1:] != kinds[:-1]).nonzero()[0].tolist()
    first = 0
    for number in (*changes, len(kinds) - 1):
        end = int(ends[number])
        yield bytes(table.scratch if kinds[number] else table.data), first, end
        first = end
