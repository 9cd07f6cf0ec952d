"""Message sets of magic 0 and 1 as kafka-python writes them."""

from __future__ import annotations

import struct
import zlib
from typing import TypeAlias

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import Record, encode_batch, split_batches
from tallymark.protocol.records.compression import compress
from tallymark.protocol.records.message_sets import LegacyBatch, split_any

Row: TypeAlias = tuple[bytes | None, bytes | None, int]

ROWS: list[Row] = [(b"key", b"value", 1000), (None, b"", 2000), (b"", None, 1500)]


def message_set(magic: int, rows: list[Row], compression: int = 0, first: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, compression, batch_size=10**6)
    for index, (key, value, timestamp) in enumerate(rows):
        builder.append(first + index, timestamp=timestamp, key=key, value=value)
    data = bytearray(builder.build())
    if magic and compression:
        # A producer leaves the set's offset to the broker, which writes that of the last message.
        struct.pack_into(">q", data, 0, first + len(rows) - 1)
    return bytes(data)


def message(magic: int, attributes: int, offset: int, value: bytes, timestamp: int = 7) -> bytes:
    """One message by the book."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def records_of(data: bytes) -> list[Record]:
    batches = split_any(data)
    for batch in batches:
        batch.check_crc()
    return [record for batch in batches for record in batch.records()]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", [0, 1])
def test_kafka_pythons_sets(magic: int, compression: int) -> None:
    data = message_set(magic, ROWS, compression)
    assert records_of(data) == [
        Record(offset, timestamp if magic else -1, key, value, ())
        for offset, (key, value, timestamp) in enumerate(ROWS)
    ]


def test_offsets_inside_a_set_of_magic_1_are_relative_to_its_last() -> None:
    inner = message(1, 0, 0, b"a") + message(1, 0, 2, b"b")  # compaction took the one between
    data = message(1, 1, 42, bytes(compress("gzip", inner)))
    assert [(record.offset, record.value) for record in records_of(data)] == [
        (40, b"a"),
        (42, b"b"),
    ]
    assert split_any(data)[0].header.next_offset == 43


def test_log_append_time_is_the_sets() -> None:
    inner = message(1, 0, 0, b"a", timestamp=1) + message(1, 0, 1, b"b", timestamp=2)
    data = message(1, 0x09, 1, bytes(compress("gzip", inner)), timestamp=99)
    assert [record.timestamp for record in records_of(data)] == [99, 99]


def test_formats_may_be_mixed_and_the_last_may_be_cut() -> None:
    """A log that lived through an upgrade holds all three formats one after another."""
    old, batch = message(0, 0, 0, b"old"), encode_batch([(None, b"new", (), 5)], base_offset=1)
    data = old + batch + message(1, 0, 2, b"odd")
    assert [record.value for record in records_of(data)] == [b"old", b"new", b"odd"]
    assert [type(b) is LegacyBatch for b in split_any(data)] == [True, False, True]
    for cut in range(len(old), len(old + batch)):
        assert len(split_any(data[:cut])) == 1
    assert split_any(old[:-1]) == split_any(old[:10]) == []


def test_batches_are_all_that_a_broker_takes() -> None:
    with pytest.raises(CorruptRecordError, match="has format 1"):
        split_batches(message(1, 0, 0, b"v" * 50))


@pytest.mark.parametrize(
    "data",
    [
        message(1, 1, 0, bytes(compress("gzip", message(1, 1, 0, b"")))),  # a set in a set
        message(1, 1, 0, b"not gzip"),
        message(1, 4, 0, b"zstd is younger"),
        message(0, 0, 0, b"value")[:-1] + b"x",  # fails its CRC
        message(0, 0, 0, b"v" * 9).replace(b"\0\0\0\x09", b"\0\0\0\x08"),
        message(0, 0, 0, b"v" * 9).replace(b"\0\0\0\x09", b"\0\0\0\x0a"),
        struct.pack(">qiIb", 0, 5, 0, 0) + bytes(20),  # smaller than any message
    ],
)
def test_bad_messages(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        records_of(data)


def test_sets_are_bounded() -> None:
    data = message(1, 1, 0, bytes(compress("gzip", message(1, 0, 0, bytes(100_000)))))
    with pytest.raises(CorruptRecordError, match="size allowed"):
        split_any(data)[0].records(max_size=50_000)
