"""Record batches that are not what the sender sent. Pure.

Every function gives whole batches with a right CRC and right offset deltas, which a broker takes
like any other. They carry no producer id: with one the broker would notice what is missing and
refuse what comes twice, so a hop with faults is one without idempotence.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from crc32c import crc32c

from tallymark.protocol.records.batch import HEADER_SIZE, Batch, BatchHeader, Record, encode_batch
from tallymark.protocol.records.compression import compress, decompress
from tallymark.protocol.records.rebatch import is_dense, rebatch
from tallymark.protocol.records.writer import HEADER
from tallymark.protocol.schema import Buffer
from tallymark.protocol.varint import decode_varint

_CODEC: Final = 0x07
_BEFORE_LENGTH: Final = 12
"""Bytes that the length of a batch does not count, see :mod:`tallymark.protocol.records.batch`."""
_CRC_AT: Final = 17
_CRC_FROM: Final = 21


def neutral(batch: Batch) -> bytes:
    """The same records in the same bytes, without the id of a producer."""
    if not is_dense(batch):
        return bytes(batch.data)
    header, payload = rebatch(batch, -1, -1, -1)
    return header + bytes(payload)


def written(records: Iterable[Record], codec: str) -> bytes:
    """A batch of these records, at least one; offsets count up from 0."""
    rows = [(one.key, one.value, one.headers, one.timestamp) for one in records]
    return encode_batch(rows, compression=codec)


def without(batch: Batch, gone: Collection[int]) -> bytes | None:
    """The batch without the records at these places (0 is the first); None when none is left."""
    left = [record for place, record in enumerate(batch.records()) if place not in gone]
    if len(left) == batch.header.record_count:
        return neutral(batch)
    return written(left, batch.header.codec) if left else None


def repeated(batch: Batch, again: Collection[int]) -> bytes:
    """The batch with the records at these places twice, the copy right behind."""
    rows = [
        record
        for place, record in enumerate(batch.records())
        for _ in range(2 if place in again else 1)
    ]
    return written(rows, batch.header.codec)


def corrupted(batch: Batch, places: Collection[int]) -> bytes:
    """The batch with other values at these places, as faulty memory leaves them: the CRC is right
    since it was computed afterwards."""
    rows = [
        record._replace(value=damaged(record.value)) if place in places else record
        for place, record in enumerate(batch.records())
    ]
    return written(rows, batch.header.codec)


def damaged(value: bytes | None) -> bytes:
    """The value with one bit turned; nothing becomes something."""
    if not value:
        return b"\x01"
    middle = len(value) // 2
    return value[:middle] + bytes((value[middle] ^ 0x40,)) + value[middle + 1 :]


def flipped(batch: Batch, places: Collection[int]) -> bytes:
    """The batch with one bit turned in each value at these places, which one depends on the
    value."""
    rows = [
        record._replace(value=with_bit_turned(record.value)) if place in places else record
        for place, record in enumerate(batch.records())
    ]
    return written(rows, batch.header.codec)


def with_bit_turned(value: bytes | None) -> bytes:
    """The value with one bit turned, anywhere; nothing becomes something."""
    if not value:
        return b"\x01"
    bit = random.Random(value).randrange(len(value) * 8)
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def exchanged(batch: Batch, parts: Mapping[bytes, bytes]) -> bytes:
    """The batch of a log with these byte strings, each once in it, in place of others of the same
    length. Everything else stays as it is; the CRC is right."""
    header = batch.header
    body: Buffer = batch.data[HEADER_SIZE:]
    if header.codec != "none":
        body = decompress(header.codec, body)
    changed = bytes(body)
    for old, new in parts.items():
        changed = changed.replace(old, new, 1)
    return _sealed(header, compress(header.codec, changed))


def cut_out(batch: Batch, gone: Collection[int]) -> bytes:
    """The batch of a log without the records at these places: all others keep their offsets, so
    the log has a hole there, as after compaction. Records say by themselves how far they are from
    the batch's first offset and time, so their bytes stay as they are."""
    header = batch.header
    body: Buffer = batch.data[HEADER_SIZE:]
    if header.codec != "none":
        body = decompress(header.codec, body)
    left: list[bytes] = []
    pos = 0
    for place in range(header.record_count):
        start = pos
        length, pos = decode_varint(body, pos)
        pos += length
        if place not in gone:
            left.append(bytes(body[start:pos]))
    codec = header.codec if left else "none"
    attributes = header.attributes if left else header.attributes & ~_CODEC
    changed = header._replace(attributes=attributes, record_count=len(left))
    return _sealed(changed, compress(codec, b"".join(left)))


def _sealed(header: BatchHeader, payload: Buffer) -> bytes:
    """A batch of these records with the length and the CRC that it has to have."""
    length = HEADER_SIZE - _BEFORE_LENGTH + len(payload)
    data = bytearray(HEADER.pack(*header._replace(batch_length=length)))
    data += payload
    data[_CRC_AT:_CRC_FROM] = crc32c(memoryview(data)[_CRC_FROM:]).to_bytes(4, "big")
    return bytes(data)


def picked(records: Sequence[Record], places: Collection[int]) -> list[Record]:
    """The records at these places."""
    return [record for place, record in enumerate(records) if place in places]
