"""Records as rows of a table, hour by hour, straight from the columns of their batches.

A piece mostly lies within one hour; then its columns are joined to those that were gathered before,
without an object a record. The columns are those of the source, with ``late`` for rows that came
when their hour had long ended; topic, date and hour are in the names of the folders.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from tallymark_spark_jobs.load.places import hour_of
from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.rows import HEADER, TIMESTAMP

if TYPE_CHECKING:
    from tallymark.protocol.records.reader import Headers
    from tallymark_spark_jobs.lake.table import PartitionKey
    from tallymark_spark_jobs.source.reading import Piece

ROWS: Final = pa.schema(
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
broker's; ``headers`` is null where there are none. ``topic_id`` tells the records of a topic from
those of another one that had its name before: partition and offset alone do not. It is null if the
brokers have no such ids."""

MOST_ROWS: Final = 16_384
MOST_BYTES: Final = 8 << 20
"""So much of an hour is gathered before it becomes one batch of Arrow."""
_LAST_MS: Final = (2**63 - 1) // 1000


class Gathered:
    """Records of one hour, in lists, one a column."""

    __slots__ = ("bytes", "headers", "keys", "offsets", "timestamps", "types", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.offsets = array("q")
        self.timestamps = array("q")
        self.types = bytearray()
        self.headers: list[Headers] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.offsets)


class HourRows:
    """Takes the pieces of a span in their order, gives the rows of an hour when there are enough of
    them. Of an hour :data:`MOST_BYTES` and one piece are held at most, of all ``most_bytes``."""

    def __init__(self, most_bytes: int = 4 * MOST_BYTES) -> None:
        self._hours: dict[int, Gathered] = defaultdict(Gathered)
        self._most = most_bytes
        self._held = 0

    def add(self, piece: Piece) -> Iterator[tuple[int, Gathered]]:
        """Join the records of a piece; hours that have enough rows by now, and their rows."""
        low, high = piece.columns.timestamp_bounds()
        first = hour_of(low)
        if first == hour_of(high):
            hours: Sequence[int] = (first,)
            self._join(first, piece, None)
        else:
            each = [hour_of(one) for one in piece.columns.timestamps]
            hours = sorted(set(each))
            for hour in hours:
                self._join(hour, piece, [one == hour for one in each])
        for hour in hours:
            found = self._hours[hour]
            if len(found) >= MOST_ROWS or found.bytes >= MOST_BYTES:
                yield hour, self._taken(hour)
        while self._held > self._most:
            hour = max(self._hours, key=lambda one: self._hours[one].bytes)
            yield hour, self._taken(hour)

    def rest(self) -> Iterator[tuple[int, Gathered]]:
        """What is still held, hour by hour."""
        for hour in sorted(self._hours):
            yield hour, self._taken(hour)

    def _taken(self, hour: int) -> Gathered:
        found = self._hours.pop(hour)
        self._held -= found.bytes
        return found

    def _join(self, hour: int, piece: Piece, keep: list[bool] | None) -> None:
        """Join the piece's records, those that ``keep`` marks."""
        of, part = piece.columns, self._hours[hour]
        before = part.bytes
        rows = len(of) if keep is None else sum(keep)
        part.types += (b"\1" if piece.header.is_log_append_time else b"\0") * rows
        if keep is None:
            part.keys += of.keys()
            part.values += of.values()
            part.headers += of.headers()
            part.offsets.extend(of.offsets)
            part.timestamps.extend(of.timestamps)
            part.bytes += of.size
        else:
            part.keys += compress(of.keys(), keep)
            part.values += compress(of.values(), keep)
            part.headers += compress(of.headers(), keep)
            part.offsets.extend(compress(of.offsets, keep))
            part.timestamps.extend(compress(of.timestamps, keep))
            part.bytes += of.size * rows // len(of)
        self._held += part.bytes - before


def raw_rows(key: PartitionKey, found: Gathered, late: bool) -> Any:
    """The gathered records of one partition as a batch of :data:`ROWS`."""
    made = [columns.binaries(found.keys), columns.binaries(found.values)]
    return pa.RecordBatch.from_arrays([*made, *log_columns(key, found, late)], schema=ROWS)


def log_columns(key: PartitionKey, found: Gathered, late: bool) -> list[Any]:
    """All columns of :data:`ROWS` but key and value."""
    rows = len(found)
    types = np.frombuffer(found.types, np.uint8).astype(np.int32)
    return [
        _fixed(pa.int32(), rows, array("i", (key.partition,)) * rows),
        _fixed(pa.int64(), rows, found.offsets),
        _fixed(TIMESTAMP, rows, _micros(found.timestamps)),
        _fixed(pa.int32(), rows, types),
        header_column(found.headers),
        flags(late, rows),
        _repeated(key.topic_id, rows) if key.topic_id else pa.nulls(rows, pa.string()),
    ]


def flags(value: bool, rows: int) -> Any:
    """A column of truth values that are all the same."""
    return _fixed(pa.bool_(), rows, (b"\xff" if value else b"\0") * ((rows + 7) // 8))


def header_column(headers: Sequence[Headers]) -> Any:
    """Null where a record has none, as in Spark's Kafka source."""
    pairs = list(chain.from_iterable(headers))
    names = [name for name, _ in pairs]
    alike = bool(names) and names.count(names[0]) == len(names)
    items = columns.structs(
        HEADER,
        [
            _repeated(names[0], len(names)) if alike else columns.strings(names),
            columns.binaries([value for _, value in pairs]),
        ],
    )
    kind = ROWS.field("headers").type
    sizes: list[int | None] = list(map(len, headers))
    if len(pairs) == len(sizes) and 0 not in sizes:  # one each
        offsets = pa.py_buffer(np.arange(len(sizes) + 1, dtype=np.int32))
        return pa.Array.from_buffers(kind, len(sizes), [None, offsets], 0, 0, [items])
    return columns.lists(kind, [size or None for size in sizes], items)


def _repeated(text: str, rows: int) -> Any:
    data = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, 0)


def _micros(timestamps: array[int]) -> Any:
    """What Kafka's milliseconds in 64 bits hold beyond microseconds in 64 bits becomes the last
    time there is."""
    return np.clip(np.frombuffer(timestamps, np.int64), -_LAST_MS, _LAST_MS) * 1000


def micros(timestamp: int) -> int:
    """The same of one timestamp."""
    return max(-_LAST_MS, min(timestamp, _LAST_MS)) * 1000


def _fixed(kind: pa.DataType, rows: int, values: Any) -> Any:
    """A column without nulls, of values that are laid out as Arrow has them."""
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)], 0)
