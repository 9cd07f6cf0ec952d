"""Reading the records of a batch of format v2; :mod:`~tallymark.protocol.records.writer` draws
them.

The result are columns. This module reads records one after the other, whatever their shape;
:mod:`~tallymark.protocol.records.runs` reads many of the same shape at once, and
:mod:`~tallymark.protocol.records.columns` puts both together.

Consumers spend most of their time here, so the loop reads varints of one and two bytes in place and
leaves longer ones to :func:`~tallymark.protocol.varint.decode_varint`. Lengths are not checked one
by one against the bytes there are: a record must end exactly where its own length says, and the
last one where the bytes do, so a wrong length is always noticed.
"""

from __future__ import annotations

from itertools import chain
from operator import add
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tallymark.errors import CorruptRecordError
from tallymark.protocol.varint import decode_varint

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = tuple[Header, ...]

SMALLEST_RECORD: Final = 7
NO_HEADERS: Final[Headers] = ()
ZIGZAG: Final = tuple((n >> 1) ^ -(n & 1) for n in range(0x80))
_ONE: Final = 0x02  # 1 as a varint
_NULL: Final = 0x01  # -1 as a varint
_LONG_OR_NULL: Final = 0x81  # bits of a varint's first byte: there are more, or it is negative
_NO_PREFIX: Final = b"\xff"  # no record's headers begin so: it would be a varint without end

# Header keys are few and repeat in every record.
_header_keys: dict[bytes, str] = {}
_MAX_HEADER_KEYS: Final = 1024


class Record(NamedTuple):
    """One record. ``timestamp`` in ms; null keys and values are None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class LooseRecords:
    """Records that were read one by one, as columns; offsets and timestamps (ms) relative to those
    of the batch."""

    __slots__ = ("_data", "_headers", "_keys", "_values", "offsets", "timestamps")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []

    def timestamp_bounds(self) -> tuple[int, int]:
        """The least and the greatest of the timestamps."""
        return min(self.timestamps), max(self.timestamps)

    def keys(self) -> list[bytes | None]:
        """The keys."""
        return self._keys

    def values(self) -> list[bytes | None]:
        """The values."""
        return self._values

    def headers(self) -> list[Headers]:
        """The headers."""
        return self._headers

    def last_headers(self, name: str) -> list[bytes | None]:
        """The value of the last header of that name; ``b""`` for null, None where there is none."""
        if set(map(len, self._headers)) == {1}:
            names, contents = zip(*chain.from_iterable(self._headers), strict=True)
            if set(names) == {name}:  # so it mostly is, and this a third of the time
                return [content or b"" for content in contents]
        return [last_header(headers, name) for headers in self._headers]

    def sizes(self) -> list[int]:
        """Bytes of key and value."""
        sizes = [len(value or b"") for value in self._values]
        if any(self._keys):
            sizes = list(map(add, sizes, [len(key or b"") for key in self._keys]))
        return sizes

    def total_size(self) -> int:
        """Bytes of all keys and values."""
        return sum(map(len, filter(None, self._keys))) + sum(map(len, filter(None, self._values)))

    def read(self, pos: int, count: int) -> int:
        """Read ``count`` records more, at ``pos``; the position after them, which is behind the
        data when the last one is cut.

        Raises CorruptRecordError; IndexError, UnicodeDecodeError and RemoteProtocolError for bad
        bytes too.
        """
        data, zigzag = self._data, ZIGZAG
        offsets, timestamps = self.offsets, self.timestamps
        keys, values, headers = self._keys, self._values, self._headers
        prefix, name = _NO_PREFIX, ""  # of the one header of the records before
        prefix_size = 1
        for _ in range(count):
            length = data[pos]
            if length < 0x80:
                end = pos + 1 + zigzag[length]
                pos += 2  # attributes, unused
            elif (second := data[pos + 1]) < 0x80 and not length & 1:
                end = pos + 2 + (length >> 1 & 0x3F | second << 6)
                pos += 3
            else:
                length, pos = _long_varint(data, pos)
                end = pos + length
                pos += 1
            number = data[pos]
            if number < 0x80:
                pos += 1
                timestamps.append(zigzag[number])
            else:
                number, pos = _long_varint(data, pos)
                timestamps.append(number)
            number = data[pos]
            if number < 0x80:
                pos += 1
                offsets.append(zigzag[number])
            else:
                number, pos = _long_varint(data, pos)
                offsets.append(number)
            if data[pos] == _NULL:
                pos += 1
                keys.append(None)
            else:
                key, pos = read_nullable(data, pos)
                keys.append(key)
            length = data[pos]
            if not length & _LONG_OR_NULL:
                start = pos + 1
                pos = start + (length >> 1)
                values.append(data[start:pos])
            elif (second := data[pos + 1]) < 0x80 and length & _LONG_OR_NULL == 0x80:
                start = pos + 2
                pos = start + (length >> 1 & 0x3F | second << 6)
                values.append(data[start:pos])
            else:
                value, pos = read_nullable(data, pos)
                values.append(value)
            if not data[pos]:
                headers.append(NO_HEADERS)
                pos += 1
            elif (
                data.startswith(prefix, pos)
                and not (size := data[pos + prefix_size]) & _LONG_OR_NULL
                and (start := pos + prefix_size + 1) + (size >> 1) == end
            ):
                headers.append(((name, data[start:end]),))
                pos = end
            else:
                start = pos
                found, pos = read_headers(data, pos)
                headers.append(found)
                if len(found) == 1:
                    name, prefix = found[0][0], _prefix(data, start)
                    prefix_size = len(prefix)
            if pos != end:
                raise CorruptRecordError(f"a record ends at byte {pos}, its length says {end}")
        return pos


def last_header(headers: Headers, name: str) -> bytes | None:
    """The value of the last header of that name; ``b""`` for null, None where there is none."""
    if len(headers) == 1:  # as nearly all have it
        found, value = headers[0]
        return (value or b"") if found == name else None
    last: bytes | None = None
    for found, value in headers:
        if found == name:
            last = value or b""
    return last


def read_headers(data: bytes, pos: int) -> tuple[Headers, int]:
    """The headers of a record, from their count on: (headers, position after them)."""
    if not data[pos]:
        return NO_HEADERS, pos + 1
    if data[pos] == _ONE:
        # One header with lengths of one byte: what our producer's records have, their stamp.
        size = data[pos + 1]
        start = pos + 2
        end = start + (size >> 1)
        if not size & _LONG_OR_NULL:
            raw = data[start:end]
            size = data[end]
            if not size & _LONG_OR_NULL:
                start = end + 1
                end = start + (size >> 1)
                return ((_header_keys.get(raw) or header_key(raw), data[start:end]),), end
    count, pos = decode_varint(data, pos)
    if count < 0:
        _bad_length(count)
    headers: list[Header] = []
    for _ in range(count):
        name, pos = read_nullable(data, pos)
        if name is None:
            _bad_length(-1)
        content, pos = read_nullable(data, pos)
        headers.append((_header_keys.get(name) or header_key(name), content))
    return tuple(headers), pos


def read_nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, None for a length of -1: (bytes, position after them). The bytes
    are fewer than the length says when the data ends before."""
    length = data[pos]
    if length < 0x80:
        pos += 1
        length = ZIGZAG[length]
    else:
        length, pos = _long_varint(data, pos)
    if length >= 0:
        end = pos + length
        return data[pos:end], end
    if length < -1:
        _bad_length(length)
    return None, pos


def _prefix(data: bytes, pos: int) -> bytes:
    """One header's count and key, if they are at ``pos``: the headers of the next records mostly
    begin in the same way."""
    size = data[pos + 1]
    return data[pos : pos + 2 + (size >> 1)] if data[pos] == _ONE and size < 0x80 else _NO_PREFIX


def header_key(raw: bytes) -> str:
    """The text of a header's key. Raises UnicodeDecodeError."""
    name = raw.decode()
    if len(_header_keys) < _MAX_HEADER_KEYS:
        _header_keys[raw] = name
    return name


def _long_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint of two bytes, which most longer ones are, or of more."""
    second = data[pos + 1]
    if second < 0x80:
        value = data[pos] & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), pos + 2
    return decode_varint(data, pos)


def _bad_length(length: int) -> NoReturn:
    raise CorruptRecordError(f"a record has a length of {length}")
