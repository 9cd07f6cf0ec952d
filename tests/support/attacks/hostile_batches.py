"""Record batches that only somebody hostile sends: each has a right CRC and a header that a log
takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import cramjam
from crc32c import crc32c

from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import Header, encode_batch
from tallymark.protocol.records.writer import HEADER
from tallymark.protocol.varint import encode_varint
from tallymark.testing.wire import WireClient

MB = 1_000_000


def bomb(megabytes: int, headers: Sequence[Header] = (), timestamp: int = 1) -> bytes:
    """One record of so many million zeros, as zstd: some 30 bytes a million."""
    packed, last = _packed(megabytes, tuple(headers))
    return sealed(packed, codec=4, last_delta=last, count=1, timestamp=timestamp)


def garbage(seed: int = 0, size: int = 200, last_delta: int = 0, count: int = 1) -> bytes:
    """Random bytes where records should be; the header claims ``count`` of them."""
    return sealed(random.Random(seed).randbytes(size), last_delta=last_delta, count=count)


def good(first: int, count: int, codec: str = "none", timestamp: int = 1) -> bytes:
    """Records that say their numbers."""
    records = [(None, b"%d" % number, (), timestamp) for number in range(first, first + count)]
    return bytes(encode_batch(records, compression=codec))


def sealed(
    payload: bytes, *, codec: int = 0, last_delta: int = 0, count: int = 1, timestamp: int = 1
) -> bytes:
    """A batch around what should be its records."""
    fields = (codec, last_delta, timestamp, timestamp, -1, -1, -1, count)
    head = bytearray(HEADER.pack(0, HEADER.size - 12 + len(payload), -1, 2, 0, *fields))
    head[17:21] = crc32c(bytes(head[21:]) + payload).to_bytes(4, "big")
    return bytes(head) + payload


def send(wire: WireClient, topic: str, records: bytes) -> int:
    """Produce that to partition 0; the error code."""
    part = m.ProduceRequestPartition(index=0, records=records)
    named = m.ProduceRequestTopic(name=topic, partition_data=[part])
    answer = wire.ask(m.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[named]), 11)
    return int(answer.responses[0].partition_responses[0].error_code)


@cache
def _packed(megabytes: int, headers: tuple[Header, ...]) -> tuple[bytes, int]:
    size = megabytes * MB
    tail = bytearray(encode_varint(len(headers)))
    for key, value in headers:
        tail += encode_varint(len(key)) + key.encode()
        tail += encode_varint(len(value or b"")) + (value or b"")
    inner = b"\0\0\0\x01" + encode_varint(size)  # attributes, deltas, no key, the value's length
    length = encode_varint(len(inner) + size + len(tail))
    return bytes(cramjam.zstd.compress(length + inner + bytes(size) + tail)), 0
