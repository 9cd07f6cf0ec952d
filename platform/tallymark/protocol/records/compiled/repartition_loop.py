"""From records, read into columns, to the records of new batches by the partition of their keys:
the loops that are compiled.

A record is copied as two ranges of bytes, behind numbers that are new::

    length  attr  time  offset │ key length  key    value length  value   │ headers
    new      0    new    new   │ as new      copied as new        copied  │ copied

Uncompiled the loops are plain Python that does the same, slowly, which tests use. The result is
byte by byte what :class:`~tallymark.protocol.records.writer.BatchBuilder` makes of the records.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import (
    COLUMNS,
    HEADERS,
    KEY,
    KEY_SIZE,
    OFFSET,
    RECORD,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark.protocol.records.compiled.primitives import MOST, no_room, varint

# --- a row of ``parts``: what goes to one partition
PART_COUNT: Final = 0
PART_SIZE: Final = 1
"""Bytes of its records."""
PART_BASE: Final = 2
"""The first record's timestamp, ms."""
PART_LATEST: Final = 3
"""The greatest timestamp, ms."""
PART_AT: Final = 4
"""Where its next record is written."""
PART_WRITTEN: Final = 5
PART_FIELDS: Final = 6

LEFT_OUT: Final = -1
"""The partition of a record that is not copied."""
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def choose_partitions(
    data: Any, columns: Any, count: int, since: int, keyless: int, targets: Any, parts: Any
) -> int:
    """Write to ``targets`` the partition of each of the first ``count`` records, LEFT_OUT for those
    with offsets before ``since``, and to ``parts``, which is all 0, how many records of how many
    bytes each partition gets. ``keyless`` is for records without a key.

    0; -1: another path must do it, for the tables are not of these sizes or this data, or a record
    has numbers in more bytes than they need, or too distant timestamps. ``data`` are the bytes that
    the columns were read from, with nothing behind the last record.
    """
    partitions: int = parts.shape[0]
    if (
        columns.shape[0] < COLUMNS
        or count > columns.shape[1]
        or count > len(targets)
        or parts.shape[1] < PART_FIELDS
        or keyless < 0
        or keyless >= partitions
    ):
        return -1
    for at in range(count):
        if columns[OFFSET, at] < since:
            targets[at] = LEFT_OUT
            continue
        end = columns[RECORD, at + 1] if at + 1 < count else len(data)
        if not is_within(data, columns, at, end):
            return -1
        target = keyless
        key = columns[KEY_SIZE, at]
        if key >= 0:
            target = 0
            if partitions > 1:
                target = (murmur2(data, columns[KEY, at], key) & _POSITIVE) % partitions
        targets[at] = target
        timestamp = columns[TIMESTAMP, at]
        if parts[target, PART_COUNT] == 0:
            parts[target, PART_BASE] = timestamp
            parts[target, PART_LATEST] = timestamp
        parts[target, PART_LATEST] = max(parts[target, PART_LATEST], timestamp)
        base = parts[target, PART_BASE]
        if base == -MOST - 1 or no_room(timestamp, -base):
            return -1
        if not headers_are_short(data, columns[HEADERS, at], end):
            return -1
        size = record_size(columns, at, end, timestamp - base, parts[target, PART_COUNT])
        parts[target, PART_COUNT] += 1
        parts[target, PART_SIZE] += varint_size(size) + size
    return 0


def copy_records(data: Any, columns: Any, count: int, targets: Any, parts: Any, out: Any) -> int:
    """Write the records to ``out``, those of each partition from its PART_AT on: 0, or -1 where
    they do not fit in there, or the tables are not those that :func:`choose_partitions` has filled.
    """
    if (
        columns.shape[0] < COLUMNS
        or count > columns.shape[1]
        or count > len(targets)
        or parts.shape[1] < PART_FIELDS
    ):
        return -1
    partitions: int = parts.shape[0]
    for at in range(count):
        target = targets[at]
        if target == LEFT_OUT:
            continue
        if target < 0 or target >= partitions:
            return -1
        end = columns[RECORD, at + 1] if at + 1 < count else len(data)
        if not is_within(data, columns, at, end):
            return -1
        number, base = parts[target, PART_WRITTEN], parts[target, PART_BASE]
        if base == -MOST - 1 or no_room(columns[TIMESTAMP, at], -base):
            return -1
        delta = columns[TIMESTAMP, at] - base
        size = record_size(columns, at, end, delta, number)
        to = parts[target, PART_AT]
        if to < 0 or size < 0 or varint_size(size) + size > len(out) - to:
            return -1
        to = put_varint(out, to, size)
        out[to] = 0
        to = put_varint(out, to + 1, delta)
        to = put_varint(out, to, number)
        to = put_varint(out, to, columns[KEY_SIZE, at])
        to = put_bytes(out, to, data, columns[KEY, at], columns[KEY_SIZE, at])
        to = put_varint(out, to, columns[VALUE_SIZE, at])
        to = put_bytes(out, to, data, columns[VALUE, at], columns[VALUE_SIZE, at])
        to = put_bytes(out, to, data, columns[HEADERS, at], end - columns[HEADERS, at])
        parts[target, PART_AT] = to
        parts[target, PART_WRITTEN] = number + 1
    return 0


def is_within(data: Any, columns: Any, at: int, end: int) -> bool:
    """Whether a record that ends at ``end`` has its key, value and headers in the data."""
    size = len(data)
    key, value, headers = columns[KEY, at], columns[VALUE, at], columns[HEADERS, at]
    if key < 0 or key > size or columns[KEY_SIZE, at] > size - key or columns[KEY_SIZE, at] < -1:
        return False
    if value < 0 or value > size or columns[VALUE_SIZE, at] > size - value:
        return False
    return bool(columns[VALUE_SIZE, at] >= -1 and headers >= 0 and headers < end and end <= size)


def record_size(columns: Any, at: int, end: int, delta: int, number: int) -> int:
    """Bytes of a record that ends at ``end``, without the length before it."""
    key, value = columns[KEY_SIZE, at], columns[VALUE_SIZE, at]
    size: int = 1 + varint_size(delta) + varint_size(number) + varint_size(key) + varint_size(value)
    size += max(key, 0) + max(value, 0)
    size += end - columns[HEADERS, at]
    return size


def headers_are_short(data: Any, pos: int, end: int) -> bool:
    """Whether all numbers of the headers, which were read before, are in as few bytes as they
    can be."""
    start = pos
    left, pos = varint(data, pos, end)
    if pos - start != varint_size(left):
        return False
    while left > 0:
        left -= 1
        for _ in range(2):  # name and value
            start = pos
            size, pos = varint(data, pos, end)
            if pos - start != varint_size(size) or size > end - pos:
                return False
            pos += max(size, 0)
    return True


def varint_size(number: int) -> int:
    """Bytes of a zigzag varint."""
    if -64 <= number < 64:
        return 1
    magnitude = number if number >= 0 else -(number + 1)
    size = 1
    magnitude >>= 6
    while magnitude > 0:
        magnitude >>= 7
        size += 1
    return size


def put_varint(out: Any, to: int, number: int) -> int:
    """Write a zigzag varint; the position after it."""
    sign = 0
    if number < 0:
        sign = 1
        number = -(number + 1)
    low = ((number & 0x3F) << 1) | sign
    number >>= 6
    while number > 0:
        out[to] = low | 0x80
        to += 1
        low = number & 0x7F
        number >>= 7
    out[to] = low
    return to + 1


def put_bytes(out: Any, to: int, data: Any, pos: int, size: int) -> int:
    """Copy ``size`` bytes, none for -1; the position after them."""
    if size <= 0:
        return to
    # Views, so that the indices are those of the loop: 16 bytes at a time, not one.
    target, source = out[to : to + size], data[pos : pos + size]
    for at in range(size):
        target[at] = source[at]
    return to + size


def murmur2(data: Any, pos: int, size: int) -> int:
    """As :func:`tallymark.protocol.murmur2.murmur2`, of ``size`` bytes at ``pos``."""
    h = _SEED ^ size
    stop = pos + size - size % 4
    while pos < stop:
        k = data[pos] + data[pos + 1] * 0x100 + data[pos + 2] * 0x10000 + data[pos + 3] * 0x1000000
        k = (k * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        pos += 4
    left = size % 4
    if left > 0:
        k = 0
        for at in range(left):
            k += data[pos + at] << (8 * at)
        h = ((h ^ k) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)
