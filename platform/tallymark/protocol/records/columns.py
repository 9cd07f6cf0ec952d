"""The records of one batch as columns.

A reader of millions of records wants lists of values, not a million objects, and mostly not all of
the fields: keys, values and headers are cut out of the bytes when they are needed. Constructing the
columns verifies that all records are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.protocol.records.reader import SMALLEST_RECORD, Headers, LooseRecords, Record
from tallymark.protocol.records.runs import LEAST, RecordRun, find_run
from tallymark.protocol.schema import Buffer

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.loose_columns import LooseColumns

    Part: TypeAlias = LooseRecords | RecordRun | LooseColumns

T = TypeVar("T")

_BEHIND_ALL: Final = 1 << 64

STRETCH: Final = 4096
"""So many records :meth:`RecordColumns.stretches` reads at once: about 1 MB of objects, beside
their bytes."""
_FIRST_STRETCH: Final = 8
"""So many records are read one by one after records of different shapes; then twice as many each
time, since the search for a run has a cost."""
_COMPILED: Final = range(8, 1 << 18)
"""So many records are read by a compiled loop: a call takes 5 us, a record 88 bytes."""

# Record._make without its Python frame.
_make: Final[Callable[[tuple[Any, ...]], Record]] = partial(tuple.__new__, Record)

# Not imported by this module: most processes read too little to load what it stands on.
_read_loose: Callable[[bytes, int, int], LooseColumns | None] | None = None


def read_loose_by(reader: Callable[[bytes, int, int], LooseColumns | None]) -> None:
    """From now on, records of different sizes are read by ``reader(data, position, count)``. It
    returns None for those that it cannot read.
    :func:`tallymark.protocol.records.compiled.loose_columns.use_compiled_loops` calls this."""
    global _read_loose  # one for the process
    _read_loose = reader


class RecordColumns:
    """The ``count`` records that fill ``payload``. Nothing changes after that.

    ``timestamp`` overrides those of the records; ``parts`` are columns that were read before.
    Raises CorruptRecordError when the bytes are not exactly ``count`` records.
    """

    __slots__ = ("_base_timestamp", "_keep", "_parts", "_timestamp", "offsets", "size")

    def __init__(
        self,
        payload: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        timestamp: int | None = None,
        parts: list[Part] | None = None,
    ) -> None:
        data = payload if isinstance(payload, bytes) else bytes(payload)
        if parts is None:
            parts, end = _read(data, 0, count)
            if end != len(data):
                raise _left_over(data, end, count)
        self._parts = parts
        self._base_timestamp = base_timestamp
        self._timestamp = timestamp
        self._keep: list[bool] | None = None
        self.size = len(data)
        """Bytes of all the records, decompressed; also of those that :meth:`only` left out."""
        self.offsets: Sequence[int] = _shifted([part.offsets for part in parts], base_offset)
        """The offsets, mostly a range."""

    @classmethod
    def stretches(
        cls,
        payload: bytes,
        count: int,
        base_offset: int,
        base_timestamp: int,
        timestamp: int | None = None,
    ) -> Iterator[Self]:
        """The same records, :data:`STRETCH` at a time, for a caller that must not hold millions of
        them at once. They are verified on the way: CorruptRecordError may come after many correct
        ones."""
        pos, left = 0, count
        while left:
            number = min(STRETCH, left)
            parts, end = _read(payload, pos, number, number == left)
            some = cls(payload, number, base_offset, base_timestamp, timestamp, parts)
            some.size = end - pos
            pos, left = end, left - number
            yield some
        if pos != len(payload):
            raise _left_over(payload, pos, count)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def timestamps(self) -> list[int]:
        """The timestamps, ms."""
        if self._timestamp is not None:
            return [self._timestamp] * len(self.offsets)
        deltas = chain.from_iterable([part.timestamps for part in self._parts])
        return self._kept(list(map(self._base_timestamp.__add__, deltas)))

    def timestamp_bounds(self) -> tuple[int, int]:
        """The least and the greatest of the timestamps; twice 0 when there is no record."""
        if self._timestamp is not None or self._keep is not None or not self._parts:
            timestamps = self.timestamps
            return min(timestamps, default=0), max(timestamps, default=0)
        bounds = [part.timestamp_bounds() for part in self._parts]
        least, greatest = min(low for low, _ in bounds), max(high for _, high in bounds)
        return self._base_timestamp + least, self._base_timestamp + greatest

    def keys(self) -> list[bytes | None]:
        """The keys; None for null."""
        return self._kept(concatenated([part.keys() for part in self._parts]))

    def values(self) -> list[bytes | None]:
        """The values; None for null."""
        return self._kept(concatenated([part.values() for part in self._parts]))

    def headers(self) -> list[Headers]:
        """The headers: a tuple of (name, value) each."""
        return self._kept(concatenated([part.headers() for part in self._parts]))

    def last_headers(self, name: str) -> list[bytes | None]:
        """The value of each record's last header of that name, as Kafka's ``lastHeader`` has it;
        ``b""`` for null, None for a record that has none."""
        return self._kept(concatenated([part.last_headers(name) for part in self._parts]))

    def sizes(self) -> list[int]:
        """Bytes of each record's key and value together."""
        return self._kept(concatenated([part.sizes() for part in self._parts]))

    def total_size(self) -> int:
        """Bytes of all keys and values."""
        if self._keep is not None:
            return sum(self.sizes())
        return sum([part.total_size() for part in self._parts])

    def records(self) -> list[Record]:
        """The records one by one."""
        columns = (self.offsets, self.timestamps, self.keys(), self.values(), self.headers())
        return list(map(_make, zip(*columns, strict=True)))

    def since(self, offset: int) -> RecordColumns:
        """These without the records before ``offset``."""
        return self.within(offset, _BEHIND_ALL)

    def within(self, first: int, end: int) -> RecordColumns:
        """Those with offsets from ``first`` on and before ``end``."""
        offsets = self.offsets
        if isinstance(offsets, range) and first <= offsets.start and offsets.stop <= end:
            return self
        return self.only([first <= one < end for one in offsets])

    def only(self, keep: list[bool]) -> RecordColumns:
        """Those whose flag is set; there is one for each."""
        if all(keep):
            return self
        rest = RecordColumns.__new__(RecordColumns)
        rest._parts, rest.size = self._parts, self.size
        rest._base_timestamp, rest._timestamp = self._base_timestamp, self._timestamp
        rest.offsets = list(compress(self.offsets, keep))
        if self._keep is not None:
            flags = iter(keep)
            keep = [before and next(flags) for before in self._keep]
        rest._keep = keep
        return rest

    def _kept(self, column: list[T]) -> list[T]:
        return column if self._keep is None else list(compress(column, self._keep))


def _read(data: bytes, pos: int, count: int, is_all: bool = True) -> tuple[list[Part], int]:
    """``count`` records at ``pos``, and the position after them. ``is_all``: they should end with
    the data."""
    if count * SMALLEST_RECORD > len(data) - pos:
        raise CorruptRecordError(f"{count} records cannot stand in {len(data) - pos} bytes")
    try:
        return _parts(data, pos, count, is_all)
    except IndexError:
        raise CorruptRecordError(f"a record runs over the {len(data)} bytes there are") from None
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"a header key is not UTF-8: {error}") from error
    except CorruptRecordError:
        raise
    except RemoteProtocolError as error:
        raise CorruptRecordError(str(error)) from error


def _left_over(data: bytes, pos: int, count: int) -> CorruptRecordError:
    return CorruptRecordError(f"{len(data) - pos} bytes after the last of {count} records")


def _parts(data: bytes, pos: int, count: int, is_all: bool) -> tuple[list[Part], int]:
    """The records as runs and what is between them, and the position after the last."""
    parts: list[Part] = []
    may_compile = is_all and _read_loose is not None
    loose: LooseRecords | None = None
    stretch = _FIRST_STRETCH
    while count > 0:
        run = find_run(data, pos, count) if count >= LEAST else None
        if run is not None:
            parts.append(run)
            pos, count, stretch, loose = run.end, count - run.count, _FIRST_STRETCH, None
            continue
        if may_compile and _read_loose is not None and count in _COMPILED:
            rest = _read_loose(data, pos, count)
            if rest is not None:
                parts.append(rest)
                return parts, len(data)
            may_compile = False
        if loose is None:
            loose = LooseRecords(data)
            parts.append(loose)
        number = min(stretch, count)
        pos = loose.read(pos, number)
        count, stretch = count - number, stretch * 2
    return parts, pos


def _shifted(columns: Sequence[Sequence[int]], base: int) -> Sequence[int]:
    numbers = joined([_counting(column) for column in columns])
    if isinstance(numbers, range):
        return range(base + numbers.start, base + numbers.stop)
    return [base + number for number in numbers]


def _counting(column: Sequence[int]) -> Sequence[int]:
    """The column, as a range if each number is one more than the last."""
    if isinstance(column, list) and column:
        counting = range(column[0], column[0] + len(column))
        return counting if column == list(counting) else column
    return column


def joined(columns: Sequence[Sequence[int]]) -> Sequence[int]:
    """The numbers of all columns, as one range where each column continues the one before."""
    if len(columns) == 1:
        return columns[0]
    ranges = [column for column in columns if isinstance(column, range) and column]
    if len(ranges) == len(columns) and all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop) if ranges else []
    return concatenated(columns)


def concatenated(columns: Sequence[Sequence[T]]) -> list[T]:
    """All columns as one list."""
    return list(columns[0] if len(columns) == 1 else chain.from_iterable(columns))
