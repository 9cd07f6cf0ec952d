"""Reading many records of the same shape at once.

Records of one kind mostly have fields of the same lengths, so they follow one another at the same
distance, the *stride*, and every byte of a length or a header's name is the same, one stride
further in each record::

            length  attr  time  offset  key   value           headers
    +0    │  e4 03 │ 00 │  02 │   00  │ 01 │ 90 03 .. 200 .. │ 02 04 't' 'm' 22 .. 17 .. │
    +stride  e4 03 │ 00 │  02 │   02  │ 01 │ 90 03 .. 200 .. │ 02 04 't' 'm' 22 .. 17 .. │
             =  =                       =    =  =              =  =   =   =  =

A slice with a step takes such a byte out of all records, in C, and one more call compares them. So
about a dozen calls read hundreds of records, and the result is the same as after reading every
single record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Final, NamedTuple

from tallymark.protocol.records.reader import NO_HEADERS, ZIGZAG, Headers, header_key
from tallymark.protocol.varint import decode_varint

LEAST: Final = 4
"""Fewer records than this are read faster one by one."""

_MOST_BYTES: Final = 48  # that are compared; a shape with more of them has no gain
_BLOCK: Final = 128
"""So many fields are cut out at once, or half as many, or a quarter ...: few patterns to keep."""
_FEW: Final = 16
"""Fewer than this are not worth a pattern."""
_WIDEST: Final = 3  # bytes of a number that differs from record to record
_ASCII: Final = bytes(range(0x80))
_SWAP: Final = bytes(range(0x80, 0x100)) + _ASCII
# The bytes of the offset deltas 0, 1, 2 ... as varints of one and of two bytes.
_COUNTING: Final = bytes(range(0, 0x80, 2))
_LOW: Final = bytes(n << 1 & 0x7F | 0x80 for n in range(0x40, 0x2000))
_HIGH: Final = bytes(n >> 6 for n in range(0x40, 0x2000))


class _Field(NamedTuple):
    """The position of bytes in a record, and their number; -1 for null."""

    at: int
    size: int


class _Shape(NamedTuple):
    """What all records of a run have in common. ``fixed`` are places and their bytes."""

    stride: int
    fixed: Sequence[tuple[int, int]]
    timestamp: _Field
    offset: _Field
    key: _Field
    value: _Field
    headers: Sequence[tuple[str, _Field]]


# The latest shapes, by the first bytes of their records: the next batch mostly has them, too.
_shapes: dict[bytes, _Shape] = {}
_MOST_SHAPES: Final = 256


class RecordRun:
    """Records of one shape, as columns that are made when they are asked for; offsets and
    timestamps (ms) are relative to those of the batch."""

    __slots__ = ("_data", "_pos", "_shape", "count", "end", "offsets")

    def __init__(self, data: bytes, pos: int, shape: _Shape, count: int) -> None:
        self._data = data
        self._pos = pos
        self._shape = shape
        self.count = count
        self.end = pos + count * shape.stride
        """Position after the last one."""
        self.offsets: Sequence[int] = _offsets(data, pos, shape, count)

    @property
    def timestamps(self) -> Sequence[int]:
        """The timestamps."""
        shape = self._shape
        return _numbers(_columns(self._data, self._pos, shape.timestamp, shape.stride, self.count))

    def timestamp_bounds(self) -> tuple[int, int]:
        """The least and the greatest of the timestamps: few of a batch's differ."""
        shape = self._shape
        columns = _columns(self._data, self._pos, shape.timestamp, shape.stride, self.count)
        if len(columns) == 1:
            numbers = _numbers([bytes(set(columns[0]))])
        else:
            different = zip(*set(zip(*columns, strict=True)), strict=True)
            numbers = _numbers(list(map(bytes, different)))
        return min(numbers), max(numbers)

    def keys(self) -> list[bytes | None]:
        """The keys."""
        return self._slices(self._shape.key)

    def values(self) -> list[bytes | None]:
        """The values."""
        return self._slices(self._shape.value)

    def headers(self) -> list[Headers]:
        """The headers."""
        if not self._shape.headers:
            return [NO_HEADERS] * self.count
        columns = [zip(repeat(name), self._slices(field)) for name, field in self._shape.headers]
        return list(zip(*columns, strict=True))

    def last_headers(self, name: str) -> list[bytes | None]:
        """The value of the last header of that name; ``b""`` for null, None where there is none."""
        fields = [field for found, field in self._shape.headers if found == name]
        if not fields:
            return [None] * self.count
        return self._slices(fields[-1]) if fields[-1].size > 0 else [b""] * self.count

    def sizes(self) -> list[int]:
        """Bytes of key and value."""
        return [self._size] * self.count

    def total_size(self) -> int:
        """Bytes of all keys and values."""
        return self._size * self.count

    @property
    def _size(self) -> int:
        return max(0, self._shape.key.size) + max(0, self._shape.value.size)

    def _slices(self, field: _Field) -> list[bytes | None]:
        at, size = field
        if size <= 0:
            return [None if size else b""] * self.count
        stride, pos, left, block = self._shape.stride, self._pos + at, self.count, _BLOCK
        if left < _FEW:
            data = self._data
            return [data[i : i + size] for i in range(pos, self.end, stride)]
        found: list[bytes | None] = []
        while left:
            while block > left:
                block >>= 1
            found += _every(size, stride - size, block).unpack_from(self._data, pos)
            pos += block * stride
            left -= block
        return found


@lru_cache(maxsize=512)
def _every(size: int, gap: int, count: int) -> struct.Struct:
    """Cuts out ``size`` bytes ``count`` times, with ``gap`` bytes between: a fifth of the time that
    a slice for each takes."""
    return struct.Struct("=" + f"{size}s{gap}x" * (count - 1) + f"{size}s")


def find_run(data: bytes, pos: int, count: int) -> RecordRun | None:
    """The records at ``pos`` that have the shape of the first one, out of at most ``count``; None
    when they are fewer than :data:`LEAST`, or of no shape that this is made for.

    Raises IndexError, UnicodeDecodeError and RemoteProtocolError for bytes that are no record.
    """
    begin = data[pos : pos + 2]
    known = _shapes.get(begin)
    if known is not None and (run := _run(data, pos, known, count)) is not None:
        return run
    length, start = decode_varint(data, pos)
    stride = start - pos + length
    if length < 0 or (len(data) - pos) // max(1, stride) < LEAST:
        return None
    if not data.startswith(data[pos:start], pos + stride):  # of another length: the usual reason
        return None
    shape = _shape(data[pos : pos + stride], start - pos)
    run = _run(data, pos, shape, count) if shape is not None else None
    if run is not None and shape is not None:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        _shapes[begin] = shape
    return run


def _run(data: bytes, pos: int, shape: _Shape, count: int) -> RecordRun | None:
    """The records at ``pos`` that have that shape, when they are enough."""
    stride = shape.stride
    count = min(count, (len(data) - pos) // stride)
    if count < LEAST or data[pos : pos + 2] != data[pos + stride : pos + stride + 2]:
        return None
    count = _alike(data, pos, shape, count)
    return RecordRun(data, pos, shape, count) if count >= LEAST else None


def _shape(record: bytes, start: int) -> _Shape | None:
    """The shape of a record, whose length ends before ``start``."""
    places = list(range(start))
    at = start + 1  # attributes, unused

    def sized() -> _Field:
        nonlocal at
        size, after = decode_varint(record, at)
        places.extend(range(at, after))
        at = after + max(0, size)
        return _Field(after, size)

    after_timestamp = decode_varint(record, at)[1]
    at = decode_varint(record, after_timestamp)[1]
    timestamp = _Field(start + 1, after_timestamp - start - 1)
    offset = _Field(after_timestamp, at - after_timestamp)
    if timestamp.size > _WIDEST or offset.size > _WIDEST:
        return None
    key, value = sized(), sized()
    number_at = at
    number, at = decode_varint(record, at)
    places.extend(range(number_at, at))
    headers: list[tuple[str, _Field]] = []
    for _ in range(number):
        name = sized()
        places.extend(range(name.at, at))
        content = sized()
        if len(places) > _MOST_BYTES or name.size < 0 or content.size < -1:
            return None
        headers.append((header_key(record[name.at : name.at + name.size]), content))
    if at != len(record) or number < 0 or key.size < -1 or value.size < -1:
        return None
    fixed = [(place, record[place]) for place in places]
    return _Shape(len(record), fixed, timestamp, offset, key, value, headers)


def _alike(data: bytes, pos: int, shape: _Shape, count: int) -> int:
    """How many records from ``pos`` on have that shape, out of ``count``; 0 when the first has
    another one."""
    stride = shape.stride
    for place, byte in shape.fixed:
        at = pos + place
        column = data[at : at + stride * (count - 1) + 1 : stride]
        if column.count(byte) != count:
            count -= len(column.lstrip(bytes((byte,))))
            if count < LEAST:
                return 0
    for place, width in (shape.timestamp, shape.offset):
        for at in range(pos + place, pos + place + width):
            column = data[at : at + stride * (count - 1) + 1 : stride]
            if at < pos + place + width - 1:  # of these each says that more bytes follow
                column = column.translate(_SWAP)
            if not column.isascii():
                count -= len(column.lstrip(_ASCII))
                if count < LEAST:
                    return 0
    return count


def _offsets(data: bytes, pos: int, shape: _Shape, count: int) -> Sequence[int]:
    """The offset deltas; a range where each is one more than the last, as they are unless a log
    was compacted."""
    columns = _columns(data, pos, shape.offset, shape.stride, count)
    if len(columns) == 1:
        start = columns[0][0] >> 1
        if _COUNTING[start : start + count] == columns[0]:
            return range(start, start + count)
    elif len(columns) == 2:
        low, high = columns
        start = low[0] >> 1 & 0x3F | high[0] << 6
        at = start - 0x40
        if _LOW[at : at + count] == low and _HIGH[at : at + count] == high:
            return range(start, start + count)
    return _numbers(columns)


def _columns(data: bytes, pos: int, field: _Field, stride: int, count: int) -> list[bytes]:
    """The first byte of that field of each record, the second, ..."""
    first = pos + field.at
    span = stride * (count - 1) + 1
    return [data[at : at + span : stride] for at in range(first, first + field.size)]


def _numbers(columns: list[bytes]) -> list[int]:
    """Of varints that all have so many bytes, the first bytes, the second bytes, ..."""
    if len(columns) == 1:
        column = columns[0]
        if column.count(column[0]) == len(column):  # as timestamps are of what is sent together
            return [ZIGZAG[column[0]]] * len(column)
        return list(map(ZIGZAG.__getitem__, column))
    if len(columns) == 2:
        plain = (low & 0x7F | high << 7 for low, high in zip(*columns, strict=True))
    else:
        plain = (a & 0x7F | (b & 0x7F) << 7 | c << 14 for a, b, c in zip(*columns, strict=True))
    return [(number >> 1) ^ -(number & 1) for number in plain]
