"""Writing a batch again with fewer records. Pure.

The fields of a batch stay: base offset, last offset delta, producer fields, leader epoch, codec,
the records' timestamps and offsets. So offsets have gaps, and the sequences of a producer continue.
An *empty* batch is a header only, 61 bytes.

The **delete horizon** of KIP-534: a batch that holds tombstones is written again the first time it
is cleaned, with attribute bit 6, and its base timestamp is from then on the time (ms) after which
the tombstones may go. Timestamps in records are relative to the base timestamp, so every reader
reads them as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import crc32c

from tallymark.protocol.records.batch import BatchHeader, Record
from tallymark.protocol.records.compression import compress
from tallymark.protocol.records.writer import HEADER, encode_large_record, encode_record
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import encode_varint

HORIZON: Final = 0x40
_CODEC: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_CRC_FROM: Final = 21
_CRC_AT: Final = 17


def delete_horizon(header: BatchHeader) -> int | None:
    """The time (ms) after which the tombstones of the batch may be removed; None where it is not
    set yet."""
    return header.base_timestamp if header.attributes & HORIZON else None


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without any of its records. Its greatest timestamp stays, or a segment of empty
    batches would never be old enough for retention. It is of no transaction any more: without its
    marker it would seem open."""
    attributes = header.attributes & ~(_CODEC | HORIZON | _TRANSACTIONAL | _CONTROL)
    return _assemble(header, attributes, header.max_timestamp, header.max_timestamp, 0, b"")


def rewrite(header: BatchHeader, records: Iterable[Record], horizon: int | None) -> bytes:
    """The batch with only these of its records, at least one; ``horizon`` in ms where some are
    tombstones. The records are read one by one, so a batch of millions takes no more memory than
    its bytes."""
    attributes = header.attributes & ~HORIZON
    base, latest, count = horizon, -1, 0
    body = bytearray()
    for record in records:
        if base is None:
            base = record.timestamp
        latest = max(latest, record.timestamp) if count else record.timestamp
        body += _record(header, record, base)
        count += 1
    assert base is not None, "a batch without records is an empty batch"
    if horizon is not None:
        attributes |= HORIZON
    if header.is_log_append_time:
        latest = header.max_timestamp
    return _assemble(header, attributes, base, latest, count, compress(header.codec, body))


def _record(header: BatchHeader, record: Record, base: int) -> bytes:
    offset, timestamp, key, value, headers = record
    fields = (key, value, headers, timestamp - base, offset - header.base_offset)
    try:
        encoded = encode_record(*fields)
    except IndexError:  # a number beyond the writer's table
        encoded = encode_large_record(*fields)
    return encode_varint(len(encoded)) + encoded


def _assemble(
    header: BatchHeader, attributes: int, base: int, latest: int, count: int, payload: Buffer
) -> bytes:
    changed = header._replace(
        batch_length=HEADER.size - 12 + len(payload),
        attributes=attributes,
        base_timestamp=base,
        max_timestamp=latest,
        record_count=count,
    )
    head = bytearray(HEADER.pack(*changed))
    crc = crc32c.crc32c(payload, crc32c.crc32c(head[_CRC_FROM:]))
    head[_CRC_AT:_CRC_FROM] = crc.to_bytes(4, "big")
    return b"".join((head, payload))
