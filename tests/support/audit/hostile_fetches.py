"""Fetches as a collector may get them, from a seed: of good batches, and of such as nobody should
make."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

from tallymark.client.producing.stamps import MAX_SEQUENCE, Stamp, encode_stamp
from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    encode_batch,
    split_batches,
)
from tallymark.protocol.varint import encode_varint
from tallymark_audit.collector.counting.readable import ReadablePart

_LOG_APPEND_TIME = 0x08
_CONTROL = 0x20
_SERVERS = ("web-1", "web-2", "", "x" * 255, "y" * 256, "we\0b", "wéb", "日本")
_ODD_STAMPS = (
    *(None, b"", b"\x01", b"\x02" + b"i" * 20, b"\x01short", b"\x01" + b"i" * 8 + b"\xff" * 12),
    b"\x01" + b"i" * 8 + b"\x80\x00\x05web",
    b"\x01" + b"i" * 8 + b"\xff\xff\xff\xff\x07\x05web",
    b"\x01" + b"i" * 8 + b"\xff\xff\xff\xff\x0f\x05web",
    b"\x01" + b"i" * 8 + b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7fweb",
    b"\x01" + b"i" * 8 + b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01web",
    b"\x01" + b"i" * 8 + b"\x00\x05we\xff",
    b"\x01" + b"i" * 8 + b"\x00\x05\xed\xa0\x80",
    b"\x01" + b"i" * 8 + b"\x00\x85",
)
_TIMES = (-5, -1, 0, 1, 900, 999, 1000, 1400, 1600, 3000, 4999, 5001, 7000, 2**41, 2**63 - 10)


@dataclass
class _Producer:
    stamp: Stamp
    time: int

    def records(self, random: Random, count: int) -> list[tuple[bytes | None, ...]]:
        step = random.choice((0, 0, 1, 7, 400))
        size = random.choice((0, 3, 8, 30, 70))
        keyed = random.random() < 0.3
        found: list[tuple] = []  # type: ignore[type-arg]
        for _ in range(count):
            raw = encode_stamp(self.stamp) if len(self.stamp.server) < 256 else self._too_long()
            value = None if random.random() < 0.05 else random.randbytes(random.randint(0, size))
            key = random.choice((None, b"", b"k", b"key-of-ten")) if keyed else None
            found.append((key, value, [("tm", raw)], self.time))
            self.time = min(2**63 - 10, self.time + step)
            self._next(random)
        return found

    def _next(self, random: Random) -> None:
        odd = random.random() < 0.02
        step = random.choice((0, 2, -1, 1000)) if odd else 1
        sequence = min(MAX_SEQUENCE, max(0, self.stamp.sequence + step))
        self.stamp = Stamp(self.stamp.instance, self.stamp.partition, sequence, self.stamp.server)

    def _too_long(self) -> bytes:
        stamp = self.stamp
        return encode_stamp(Stamp(stamp.instance, stamp.partition, stamp.sequence, "")) + b"y" * 256


def hostile_fetch(random: Random) -> tuple[ReadablePart, int]:
    """A fetch, and the offset from which on it is read."""
    producers = [_producer(random) for _ in range(random.randint(1, 3))]
    offset = random.choice((0, 0, 7, 2**40, 2**63 - 500))
    batches: list[Batch] = []
    for _ in range(random.randint(1, 7)):
        data = _batch(random, producers, offset)
        if random.random() < 0.15:
            data = _changed(random, data)
        try:
            found = split_batches(data)
        except CorruptRecordError:
            continue
        batches += found
        if found and 0 <= found[-1].header.next_offset < 2**63 - 1:
            hole = (random.random() < 0.1) * random.randrange(9)
            offset = min(2**63 - 1, found[-1].header.next_offset + hole)
    first = batches[0].header.base_offset if batches else 0
    start = first + (random.random() < 0.3) * random.randrange(12)
    left_out = [b for b in batches if random.random() < 0.3] if random.random() < 0.2 else []
    gone = {id(batch) for batch in left_out}
    end = batches[-1].header.next_offset if batches else first
    kept = [batch for batch in batches if id(batch) not in gone]
    return ReadablePart(kept, left_out, end, end + random.randrange(2), last_epoch=3), start


def _producer(random: Random) -> _Producer:
    stamp = Stamp(
        random.choice((b"instance", b"another!")),
        random.choice((0, 0, 1, 200, 2**31 - 1)),
        random.choice((0, 5, 100, 1000, 16_380, 2**40, MAX_SEQUENCE - 20)),
        random.choice(_SERVERS),
    )
    return _Producer(stamp, random.choice(_TIMES))


def _batch(random: Random, producers: list[_Producer], offset: int) -> bytes:
    rows: list[tuple] = []  # type: ignore[type-arg]
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        producer = random.choice(producers)
        if random.random() < 0.2:
            producer.time = random.choice(_TIMES)
        count = random.choice((1, 1, 2, 5, 20, 70))
        if random.random() < 0.2:
            raw = random.choice(_ODD_STAMPS)
            headers = random.choice(([("tm", raw)], [], [("tm", b"first"), ("tm", raw)]))
            at = random.choice(_TIMES)
            rows += [(None, b"v", headers, at) for _ in range(count)]
        else:
            rows += producer.records(random, count)
    if random.random() < 0.02:
        return encode_batch([(b"\0\0\0\1", b"\0" * 6, [], 1)], base_offset=offset)
    codec = random.choice(("none", "none", "none", "gzip", "snappy", "lz4", "zstd"))
    epoch = random.randrange(9)
    if random.random() < 0.2:
        return _with_holes(random, rows, offset)
    data = encode_batch(rows, base_offset=offset, compression=codec, leader_epoch=epoch)
    if random.random() < 0.2:
        return _with(data, attributes=data[22] | random.choice((_LOG_APPEND_TIME, _CONTROL)))
    return data


def _with_holes(random: Random, rows: list[tuple], offset: int) -> bytes:  # type: ignore[type-arg]
    """As compaction leaves it: the batch keeps its first and last offset. Rarely out of order."""
    kept = [number for number in range(len(rows)) if random.random() < 0.8]
    deltas = list(kept)
    if random.random() < 0.1:
        random.shuffle(deltas)
    base = rows[0][3]
    body = b"".join(
        _record(rows[number], base, delta) for number, delta in zip(kept, deltas, strict=True)
    )
    head = bytearray(encode_batch(rows[:1], base_offset=offset)[:HEADER_SIZE])
    struct.pack_into(">i", head, 8, HEADER_SIZE - 12 + len(body))
    struct.pack_into(">i", head, 23, len(rows) - 1)
    struct.pack_into(">q", head, 35, max(row[3] for row in rows))
    struct.pack_into(">i", head, 57, len(kept))
    return bytes(head) + body


def _record(row: tuple, base: int, delta: int) -> bytes:  # type: ignore[type-arg]
    key, value, headers, at = row
    parts = [b"\0", encode_varint(at - base), encode_varint(delta), _sized(key), _sized(value)]
    parts.append(encode_varint(len(headers)))
    parts += [_sized(name.encode()) + _sized(content) for name, content in headers]
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def _with(data: bytes, attributes: int) -> bytes:
    return data[:22] + bytes((attributes & 0xFF,)) + data[23:]


def _changed(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if random.random() < 0.8 and len(changed) > HEADER_SIZE:
            at = random.randrange(HEADER_SIZE, len(changed))
        else:
            at = random.randrange(16, HEADER_SIZE)
        changed[at] = random.choice((random.randrange(256), changed[at] ^ 1 << random.randrange(8)))
    return bytes(changed)
