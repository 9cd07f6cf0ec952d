"""Reading the records of a batch of format v2; :mod:`~tallymark.protocol.record_writer` draws them.

Consumers spend their time here, so the loop reads one-byte varints in place and leaves longer ones
to :func:`~tallymark.protocol.varint.decode_varint`. Lengths are not checked one by one against
the bytes there are: a record must end exactly where its own length says, and the last one where
the bytes do, so a length that runs over is always noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from tallymark.errors import CorruptRecordError, RemoteProtocolError
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import decode_varint

Header: TypeAlias = tuple[str, bytes | None]

_SMALLEST_RECORD: Final = 7
_ONE: Final = 0x02  # 1 as a varint
_LONG_OR_NULL: Final = 0x81  # bits of a varint's first byte: there are more, or it is negative
_ZIGZAG: Final = tuple((n >> 1) ^ -(n & 1) for n in range(0x80))
_NO_HEADERS: Final[tuple[Header, ...]] = ()

# Header keys are few and repeat in every record.
_header_keys: dict[bytes, str] = {}
_MAX_HEADER_KEYS: Final = 1024


class Record(NamedTuple):
    """One record. ``timestamp`` in ms; null keys and values are None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


# Record._make without its Python frame.
_make: Final[Callable[[tuple[Any, ...]], Record]] = partial(tuple.__new__, Record)


def read_records(
    payload: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    timestamp: int | None = None,
) -> list[Record]:
    """The ``count`` records that fill ``payload``; ``timestamp`` overrides those of the records.

    Raises CorruptRecordError when the bytes are anything else.
    """
    data = payload if isinstance(payload, bytes) else bytes(payload)
    if count * _SMALLEST_RECORD > len(data):
        raise CorruptRecordError(f"{count} records cannot stand in {len(data)} bytes")
    try:
        records, pos = _read(data, count, base_offset, base_timestamp)
    except IndexError:
        raise CorruptRecordError(f"a record runs over the {len(data)} bytes there are") from None
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"a header key is not UTF-8: {error}") from error
    except CorruptRecordError:
        raise
    except RemoteProtocolError as error:
        raise CorruptRecordError(str(error)) from error
    if pos != len(data):
        raise CorruptRecordError(f"{len(data) - pos} bytes after the last of {count} records")
    if timestamp is not None:
        return [record._replace(timestamp=timestamp) for record in records]
    return records


def _read(
    data: bytes, count: int, base_offset: int, base_timestamp: int
) -> tuple[list[Record], int]:
    records: list[Record] = []
    append = records.append
    pos = 0
    for _ in range(count):
        length = data[pos]
        if length < 0x80:
            pos += 1
            length = _ZIGZAG[length]
        else:
            length, pos = _long_varint(data, pos)
        end = pos + length
        pos += 1  # attributes, unused
        timestamp = data[pos]
        if timestamp < 0x80:
            pos += 1
            timestamp = _ZIGZAG[timestamp]
        else:
            timestamp, pos = _long_varint(data, pos)
        offset = data[pos]
        if offset < 0x80:
            pos += 1
            offset = _ZIGZAG[offset]
        else:
            offset, pos = _long_varint(data, pos)
        key, pos = _read_nullable(data, pos)
        value, pos = _read_nullable(data, pos)
        if data[pos]:
            headers, pos = _read_headers(data, pos)
        else:
            headers = _NO_HEADERS
            pos += 1
        if pos != end:
            raise CorruptRecordError(f"a record ends at byte {pos}, its length says {end}")
        append(_make((base_offset + offset, base_timestamp + timestamp, key, value, headers)))
    return records, pos


def _read_nullable(data: bytes, pos: int) -> tuple[bytes | None, int]:
    length = data[pos]
    if length < 0x80:
        pos += 1
        length = _ZIGZAG[length]
    else:
        length, pos = _long_varint(data, pos)
    if length >= 0:
        end = pos + length
        return data[pos:end], end
    if length < -1:
        _bad_length(length)
    return None, pos


def _read_headers(data: bytes, pos: int) -> tuple[tuple[Header, ...], int]:
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
                return ((_header_keys.get(raw) or _header_key(raw), data[start:end]),), end
    count, pos = decode_varint(data, pos)
    if count < 0:
        _bad_length(count)
    headers: list[Header] = []
    for _ in range(count):
        name, pos = _read_nullable(data, pos)
        if name is None:
            _bad_length(-1)
        content, pos = _read_nullable(data, pos)
        headers.append((_header_keys.get(name) or _header_key(name), content))
    return tuple(headers), pos


def _long_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A varint of two bytes, which most longer ones are, or of more."""
    second = data[pos + 1]
    if second < 0x80:
        value = data[pos] & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), pos + 2
    return decode_varint(data, pos)


def _header_key(raw: bytes) -> str:
    name = raw.decode()
    if len(_header_keys) < _MAX_HEADER_KEYS:
        _header_keys[raw] = name
    return name


def _bad_length(length: int) -> NoReturn:
    raise CorruptRecordError(f"a record has a length of {length}")
