"""Writing records and batches. A record inside a batch of format v2::

    length varint | attributes i8 = 0 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value
    | header count varint | key length varint, key | value length varint, value ...

Lengths are zigzag varints, -1 is null. Deltas are to the batch's base timestamp and base offset.
Every record of a producer passes here, so lengths come from a table, and the rare large ones are
encoded by another function.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import crc32c

from tallymark.errors import LocalProtocolError
from tallymark.protocol.records.compression import codec_number, compress
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import VARINT, encode_varint

Header: TypeAlias = tuple[str, bytes | None]
RecordInput: TypeAlias = tuple[Buffer | None, Buffer | None, Sequence[Header], int]
"""key, value, headers, timestamp in ms."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_HEADER_SIZE: Final = HEADER.size
_NULL: Final = encode_varint(-1)
_ONE: Final = VARINT[1]
_HEAD: Final = struct.Struct(">qiibI")
_TAIL: Final = struct.Struct(">hiqqqhii")
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20

# Header keys are few and repeat in every record; keep their encoded form, with its length before.
_header_keys: dict[str, bytes] = {}
_MAX_HEADER_KEYS: Final = 1024


class BatchBuilder:
    """Builds one batch. Records are encoded as they come; compression and CRC at the end."""

    __slots__ = ("_base_timestamp", "_body", "_count", "_max_timestamp")

    def __init__(self) -> None:
        self._body = bytearray()
        self._count = 0
        self._base_timestamp = -1
        self._max_timestamp = -1

    @property
    def count(self) -> int:
        """Records so far."""
        return self._count

    @property
    def size(self) -> int:
        """Bytes the batch would have now, uncompressed."""
        return _HEADER_SIZE + len(self._body)

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp so far in ms, -1 for an empty batch."""
        return self._max_timestamp

    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
        timestamp: int,
    ) -> int:
        """Add a record, timestamp in ms. Returns the size of the batch so far, uncompressed."""
        count = self._count
        if count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        body = self._body
        try:
            if delta < 0 or len(headers) != 1:
                record = encode_record(key, value, headers, delta, count)
            else:
                # One header is what our producer's records have, its stamp; in place and with
                # one join this takes half the time.
                ((name, content),) = headers
                record = b"".join(
                    (
                        b"\0",
                        VARINT[delta],
                        VARINT[count],
                        _NULL if key is None else VARINT[len(key)],
                        key or b"",
                        _NULL if value is None else VARINT[len(value)],
                        value or b"",
                        _ONE,
                        _header_keys.get(name) or header_key(name),
                        _NULL if content is None else VARINT[len(content)],
                        content or b"",
                    )
                )
            body += VARINT[len(record)]
        except IndexError:
            record = encode_large_record(key, value, headers, delta, count)
            body += encode_varint(len(record))
        body += record
        self._count = count + 1
        return _HEADER_SIZE + len(body)

    def build(
        self,
        *,
        base_offset: int = 0,
        compression: str = "none",
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        leader_epoch: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> bytes:
        """The whole batch. May be called again, for example after the producer id has changed.

        Raises LocalProtocolError for an unknown codec, for no records, or a number that does not
        fit its field.
        """
        if not self._count:
            raise LocalProtocolError("a batch needs a record")
        payload = compress(compression, self._body)
        header = batch_header(
            payload,
            attributes=codec_number(compression)
            | transactional * _TRANSACTIONAL
            | control * _CONTROL,
            count=self._count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer=(producer_id, producer_epoch, base_sequence),
            base_offset=base_offset,
            leader_epoch=leader_epoch,
        )
        return b"".join((header, payload))

    def records(self) -> bytes:
        """The records alone, uncompressed."""
        return bytes(self._body)


def batch_header(
    payload: Buffer,
    *,
    attributes: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int],
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The 61 bytes before ``payload``, the records as they travel. ``producer`` is id, epoch and
    base sequence. LocalProtocolError for a number that does not fit its field."""
    try:
        tail = _TAIL.pack(attributes, count - 1, base_timestamp, max_timestamp, *producer, count)
        crc = crc32c.crc32c(payload, crc32c.crc32c(tail))
        length = _HEADER_SIZE - 12 + len(payload)
        return _HEAD.pack(base_offset, length, leader_epoch, 2, crc) + tail
    except struct.error as error:
        raise LocalProtocolError(f"batch header: {error}") from error


def encode_headers(headers: Sequence[Header], more: int = 0) -> bytes:
    """Headers as a record has them, the count (and ``more`` that will follow) before them. Raises
    LocalProtocolError, TypeError or AttributeError for what is no header."""
    parts: list[Buffer] = [encode_varint(len(headers) + more)]
    for name, content in headers:
        parts.append(header_key(name))
        parts += nullable(content)
    return b"".join(parts)


def encode_batch(
    records: Iterable[RecordInput],
    *,
    base_offset: int = 0,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """One batch of ``records``: (key, value, headers, timestamp in ms) each."""
    builder = BatchBuilder()
    for key, value, headers, timestamp in records:
        builder.append(key, value, headers, timestamp)
    return builder.build(
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        transactional=transactional,
    )


def encode_record(
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    """One record, without the length before it; IndexError when the table lacks a number."""
    if timestamp_delta < 0:
        raise IndexError
    parts: list[Buffer] = [
        b"\0",
        VARINT[timestamp_delta],
        VARINT[offset_delta],
        _NULL if key is None else VARINT[len(key)],
        key or b"",
        _NULL if value is None else VARINT[len(value)],
        value or b"",
        VARINT[len(headers)],
    ]
    for name, content in headers:
        parts += (
            _header_keys.get(name) or header_key(name),
            _NULL if content is None else VARINT[len(content)],
            content or b"",
        )
    return b"".join(parts)


def encode_large_record(
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    timestamp_delta: int,
    offset_delta: int,
) -> bytes:
    """As :func:`encode_record`, for numbers that the table does not hold."""
    parts: list[Buffer] = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts += nullable(key)
    parts += nullable(value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        parts.append(header_key(name))
        parts += nullable(content)
    return b"".join(parts)


def nullable(data: Buffer | None) -> tuple[Buffer, ...]:
    """A key or value with its length before it, as parts."""
    return (_NULL,) if data is None else (encode_varint(len(data)), data)


def header_key(name: str) -> bytes:
    """A header's name, encoded, its length before it."""
    try:
        data = name.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"header key {name!r} is not Unicode text: {error}") from error
    encoded = encode_varint(len(data)) + data
    if len(_header_keys) < _MAX_HEADER_KEYS:
        _header_keys[name] = encoded
    return encoded
