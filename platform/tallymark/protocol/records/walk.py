"""Checks that bytes are records: a walk over them that keeps nothing in memory.

A broker has to know that every record of a producer's batch is whole before consumers read it, and
must not use memory for millions of records. :mod:`tallymark.protocol.records.writer` draws a
record. Records that pass decode with :class:`~tallymark.protocol.records.columns.RecordColumns` (a
property test checks that). The walk is stricter: lengths, counts and offset deltas have 32 bits as
in Kafka's documentation, and offsets increase.

This file is *the record kernel*: ``make kernel`` compiles a copy of it by mypyc, which makes the
walk some 30 times faster (:mod:`tallymark.protocol.records.check` takes that where it is there).
So it uses plain integers and bytes only, and imports nothing of ours.
"""

from __future__ import annotations

from typing import Final

WHOLE: Final = 0
RUNS_OVER: Final = 1
BAD_VARINT: Final = 2
BAD_OFFSET: Final = 3
BAD_KEY: Final = 4
BAD_VALUE: Final = 5
BAD_HEADERS: Final = 6
BAD_HEADER_KEY: Final = 7
BAD_END: Final = 8
BYTES_LEFT: Final = 9

_NULL: Final = 1
"""The length -1 as a varint, of a key or a value that is null."""
_BITS_32: Final = 4_294_967_296
"""Lengths, counts and offset deltas are less, before they are unmapped."""


def is_whole(data: bytes, pos: int, count: int) -> bool:
    """Whether ``count`` records fill ``data`` from ``pos`` on: :func:`walk` over all of them."""
    wrong, _, _, _ = walk(data, pos, count, count - 1, count, 0, 0)
    return wrong == WHOLE


def walk(
    data: bytes, pos: int, count: int, last_delta: int, looked: int, number: int = 0, least: int = 0
) -> tuple[int, int, int, int]:
    """The first error in the ``count`` records that fill ``data`` from ``pos`` on: (one of the
    constants above, number of the record, least offset delta it may have, its position);
    :data:`WHOLE` where there is none.

    Their offset deltas increase and leave room for those that follow, up to ``last_delta``: where
    that is ``count - 1``, they are 0, 1, 2 ... Only records before ``looked`` are checked.
    ``number`` and ``least`` are from an earlier result for a part of the data that ended with
    :data:`RUNS_OVER`.

    A field that goes beyond the end of its record is noticed at that end at the latest: until then
    the walk reads bytes of the next record, or there are none (IndexError).
    """
    size = len(data)
    room = last_delta - count + 1
    begin = end = pos
    try:
        while number < count and number < looked:
            begin = end = pos
            length = data[pos]
            if length < 0x80:
                pos += 1
            else:
                length, pos = unsigned(data, pos)
            end = pos + (length >> 1)
            if length & 1 or end > size:
                return (BAD_END if length & 1 else RUNS_OVER), number, least, begin
            pos += 1  # attributes, unused
            pos = pos + 1 if data[pos] < 0x80 else after_long(data, pos)  # timestamp delta
            byte = data[pos]
            if byte < 0x80:
                pos += 1
            else:
                byte, pos = unsigned(data, pos)
            delta = byte >> 1
            if byte & 1 or delta < least or delta > number + room or pos >= end:
                return (BAD_OFFSET if pos < end else BAD_END), number, least, begin
            least = delta + 1
            wrong = BAD_KEY
            while wrong <= BAD_VALUE:  # first the key, then the value
                byte = data[pos]
                if byte < 0x80:
                    pos += 1
                else:
                    byte, pos = unsigned(data, pos)
                if byte != _NULL:
                    pos += byte >> 1
                    if byte & 1 or pos > end:
                        return wrong, number, least, begin
                wrong += 1
            if data[pos]:
                wrong, pos = headers(data, pos, end)
                if wrong:
                    return wrong, number, least, begin
            else:
                pos += 1
            if pos != end:
                return BAD_END, number, least, begin
            number += 1
    except IndexError:  # the data end in its length, or in what goes beyond its length
        return (RUNS_OVER if end == begin else BAD_END), number, least, begin
    except ValueError:
        return BAD_VARINT, number, least, begin
    return (BYTES_LEFT if number == count and pos != size else WHOLE), number, least, pos


def headers(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The headers of a record that ends before ``end``: (what is wrong, position after them)."""
    count, pos = unsigned(data, pos)
    if count & 1:
        return BAD_HEADERS, pos
    count >>= 1
    while count:  # it ends with the record's bytes, whatever the count says
        if pos >= end:
            return BAD_HEADERS, pos
        size, pos = unsigned(data, pos)
        start = pos
        pos += size >> 1
        if size & 1 or pos >= end:
            return BAD_HEADER_KEY, pos
        if not _is_text(data, start, pos):
            return BAD_HEADER_KEY, pos
        size, pos = unsigned(data, pos)
        if size & 1:
            if size != 1:
                return BAD_HEADERS, pos
        else:
            pos += size >> 1
            if pos > end:
                return BAD_HEADERS, pos
        count -= 1
    return WHOLE, pos


def _is_text(data: bytes, pos: int, end: int) -> bool:
    """Whether the bytes are UTF-8."""
    at = pos
    while at < end:
        if data[at] >= 0x80:
            try:
                str(data[pos:end], "utf-8")
            except UnicodeDecodeError:
                return False
            return True
        at += 1
    return True


def scan(
    data: bytes, count: int, keyed: bool, unset: int, least: int, greatest: int, most: int
) -> tuple[list[int], list[tuple[int, int]], int]:
    """Facts about ``count`` records that :func:`walk` found whole.

    Returns the numbers of those without a key (none unless ``keyed``), (number, delta) of those
    with a timestamp delta outside of ``least`` to ``greatest`` that is not below ``unset`` either,
    at most ``most`` of both kinds, and the greatest timestamp delta, 0 where there is no record.
    """
    keyless: list[int] = []
    untimely: list[tuple[int, int]] = []
    top = 0
    pos = 0
    for number in range(count):
        length = data[pos]
        if length < 0x80:
            pos += 1
        else:
            length, pos = unsigned(data, pos)
        end = pos + (length >> 1)
        pos += 1
        delta, pos = long(data, pos)
        if number == 0 or delta > top:
            top = delta
        if (delta < least or delta > greatest) and delta >= unset and len(untimely) < most:
            untimely.append((number, delta))
        if keyed:
            _, pos = unsigned(data, pos)
            if data[pos] == 1 and len(keyless) < most:
                keyless.append(number)
        pos = end
    return keyless, untimely, top


def search(data: bytes, count: int, start: int, since: int, greatest: bool) -> tuple[int, int]:
    """(offset delta, timestamp delta) of a record that :func:`walk` found whole, of those from the
    offset delta ``start`` on: the first with a timestamp delta of ``since`` or more; ``greatest``:
    the first of the greatest there is. The offset delta is -1 where there is none."""
    found = -1
    top = since
    pos = 0
    for _ in range(count):
        length, pos = unsigned(data, pos)
        end = pos + (length >> 1)
        delta, pos = long(data, pos + 1)
        if delta >= top if found < 0 else delta > top:
            offset, _ = unsigned(data, pos)
            if offset >> 1 >= start:
                found = offset >> 1
                top = delta
                if not greatest:
                    break
        pos = end
    return found, top


def unsigned(data: bytes, pos: int) -> tuple[int, int]:
    """The varint of 32 bits at ``pos`` before it is unmapped, and the position after it.

    Raises ValueError where it has no end within five bytes, or more bits; IndexError where the data
    end before it does."""
    value = 0
    shift = 0
    while shift < 35:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value < _BITS_32:
                return value, pos
            break
        shift += 7
    raise ValueError("a varint of more than 32 bits")


def after_long(data: bytes, pos: int) -> int:
    """The position after the varint of 64 bits at ``pos``.

    Raises ValueError where it has no end within ten bytes, or more bits; IndexError where the data
    end before it does."""
    last = pos + 9
    while pos < last:
        if data[pos] < 0x80:
            return pos + 1
        pos += 1
    if data[pos] < 2:
        return pos + 1
    raise ValueError("a varint of more than 64 bits")


def long(data: bytes, pos: int) -> tuple[int, int]:
    """The varint of 64 bits at ``pos``, whose end :func:`after_long` found, unmapped, and the
    position after it."""
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
