"""Records of different sizes for :class:`~tallymark.protocol.records.columns.RecordColumns`, read
by the compiled loop and not one by one.

::

    positions  [7, 230, 391, ...]      int64, of the loop
    ends       [207, 371, 640, ...]
    values()   [data[7:207], ...]      cut out when they are asked for

An object for each value is what is left of the cost: 0.1 us of the 0.15 us that a value takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tallymark.protocol.records import columns as pure
from tallymark.protocol.records.compiled import kernel
from tallymark.protocol.records.compiled.layout import (
    HEADERS,
    KEY,
    KEY_SIZE,
    OFFSET,
    SIZE,
    STAMP,
    STAMP_SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark.protocol.records.compiled.primitives import MOST
from tallymark.protocol.records.reader import (
    NO_HEADERS,
    Headers,
    header_key,
    last_header,
    read_headers,
)

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

_STAMP_HEADER: Final = "tm"
_ONE: Final = 0x02  # 1 as a varint
_LONG_OR_NULL: Final = 0x81
_SMALL: Final = 256
"""Records of a batch that keeps no more of a table than it needs."""


class LooseColumns:
    """The records of one batch as columns; offsets and timestamps (ms) relative to those of the
    batch. :func:`read_loose` makes them."""

    __slots__ = ("_columns", "_data", "offsets")

    def __init__(self, data: bytes, columns: IntArray) -> None:
        self._data = data
        self._columns = columns
        self.offsets: Sequence[int] = _counting(columns[OFFSET])

    @property
    def timestamps(self) -> list[int]:
        """The timestamps."""
        found: list[int] = self._columns[TIMESTAMP].tolist()
        return found

    def timestamp_bounds(self) -> tuple[int, int]:
        """The least and the greatest of the timestamps."""
        timestamps = self._columns[TIMESTAMP]
        return int(timestamps.min()), int(timestamps.max())

    def keys(self) -> list[bytes | None]:
        """The keys; None for null."""
        return self._cut(self._columns[KEY], self._columns[KEY_SIZE])

    def values(self) -> list[bytes | None]:
        """The values; None for null."""
        return self._cut(self._columns[VALUE], self._columns[VALUE_SIZE])

    def headers(self) -> list[Headers]:
        """The headers."""
        starts = self._columns[HEADERS]
        first = int(starts[0])
        data = self._data
        if not data[first] and not self._bytes(0).any():
            return [NO_HEADERS] * len(starts)
        if data[first] == _ONE and data[first + 1] < 0x80:
            found = self._single_headers(first)
            if found is not None:
                return found
        return [read_headers(data, start)[0] for start in starts.tolist()]

    def last_headers(self, name: str) -> list[bytes | None]:
        """The value of the last header of that name; ``b""`` for null, None where there is none."""
        if name == _STAMP_HEADER:
            return self._cut(self._columns[STAMP], self._columns[STAMP_SIZE])
        return [last_header(headers, name) for headers in self.headers()]

    def sizes(self) -> list[int]:
        """Bytes of key and value."""
        found: list[int] = self._columns[SIZE].tolist()
        return found

    def total_size(self) -> int:
        """Bytes of all keys and values."""
        return int(self._columns[SIZE].sum())

    def _single_headers(self, first: int) -> list[Headers] | None:
        """If all records have one header of the same name as the first record's, and a value of 0
        to 63 bytes."""
        data = self._data
        name_size = data[first + 1] >> 1
        prefix = data[first : first + 2 + name_size]
        for place, byte in enumerate(prefix):
            if (self._bytes(place) != byte).any():
                return None
        sizes = self._bytes(len(prefix))
        if (sizes & _LONG_OR_NULL).any():
            return None
        name = header_key(prefix[2:])
        starts = self._columns[HEADERS] + (len(prefix) + 1)
        ends = starts + (sizes >> 1)
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        return [((name, data[start:end]),) for start, end in bounds]

    def _bytes(self, place: int) -> IntArray:
        """That byte of each record's headers. Those of a record begin with a prefix that was
        compared as far as ``place``, so the byte is one of the record."""
        import numpy as np

        buffer = np.frombuffer(self._data, np.uint8)
        found: IntArray = buffer[self._columns[HEADERS] + place].astype(np.int64)
        return found

    def _cut(self, starts: IntArray, sizes: IntArray) -> list[bytes | None]:
        import numpy as np

        data = self._data
        has_nulls = np.min(sizes) < 0  # a size of -1 is null
        if has_nulls and np.max(sizes) < 0:
            return [None] * len(starts)
        bounds = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
        if has_nulls:
            return [None if end < start else data[start:end] for start, end in bounds]
        return [data[start:end] for start, end in bounds]


def use_compiled_loops() -> None:
    """Load or compile the loops, in a thread, and use them in this process as soon as that is done,
    for all that reads records: for a process that reads millions. Returns at once. Without numba
    (extra ``fast``) nothing changes. The loops need 140 MB."""
    pure.read_loose_by(read_loose)
    kernel.warm()


def read_loose(data: bytes, pos: int, count: int) -> LooseColumns | None:
    """The ``count`` records, one at least, that fill ``data`` from ``pos`` on; None where
    the pure path must read them, which says what is wrong."""
    if not kernel.ready():
        return None
    payload = data[pos:] if pos else data
    columns = kernel.record_columns(payload, count, 0, 0)
    if columns is None:
        return None
    # A table has room for 500 records, and a stream holds the columns of many small batches.
    return LooseColumns(payload, columns.copy() if count < _SMALL else columns)


def _counting(offsets: IntArray) -> Sequence[int]:
    """The offsets, as a range if each is one more than the last."""
    import numpy as np

    first, last = int(offsets[0]), int(offsets[-1])
    may_count = last - first == len(offsets) - 1 and last < MOST
    if may_count and (offsets == np.arange(first, last + 1)).all():
        return range(first, last + 1)
    found: list[int] = offsets.tolist()
    return found
