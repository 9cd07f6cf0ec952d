"""The check of records as a loop that is compiled: what it accepts,
:mod:`tallymark.protocol.records.walk` accepts. What it does not accept is left to that, which says
what is wrong.

Uncompiled it is plain Python that says the same, slowly, which tests use.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.primitives import MOST, is_utf8, varint

NOT_WHOLE: Final = -MOST - 1
"""The result for records that are not whole, or that this loop does not judge."""
_LONGEST: Final = 5
"""Bytes of a number of 32 bits, which lengths, counts and offset deltas are."""
_MOST_32: Final = 0x7FFF_FFFF


def check_records(data: Any, count: int, last_delta: int) -> int:
    """The greatest timestamp delta of the ``count`` records that fill ``data``, whose offset deltas
    increase and leave room for those that follow, up to ``last_delta``; 0 where there are none;
    NOT_WHOLE."""
    size = len(data)
    pos = least = greatest = 0
    for number in range(count):
        length, pos = number_32(data, pos, size)
        if pos < 0 or length < 0 or length > size - pos:
            return NOT_WHOLE
        stop = pos + length
        pos += 1  # attributes, unused
        timestamp, pos = varint(data, pos, stop)
        if pos < 0:
            return NOT_WHOLE
        greatest = timestamp if number == 0 else max(greatest, timestamp)
        delta, pos = number_32(data, pos, stop)
        if pos < 0 or delta < least or delta > last_delta - count + 1 + number:
            return NOT_WHOLE
        least = delta + 1
        pos = after_sized(data, pos, stop)
        if pos < 0:
            return NOT_WHOLE
        pos = after_sized(data, pos, stop)
        if pos < 0 or after_headers(data, pos, stop) != stop:
            return NOT_WHOLE
        pos = stop
    return greatest if pos == size else NOT_WHOLE


def number_32(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The varint at ``pos`` and the position after it, -1 unless it has 32 bits in at most five
    bytes before ``stop``."""
    number, after = varint(data, pos, stop)
    if after > pos + _LONGEST or number > _MOST_32 or number < -_MOST_32 - 1:
        return 0, -1
    return number, after


def after_sized(data: Any, pos: int, stop: int) -> int:
    """The position after a key or a value and its length, -1 where it does not end before
    ``stop``."""
    size, pos = number_32(data, pos, stop)
    if pos < 0 or size < -1 or size > stop - pos:
        return -1
    return pos + max(size, 0)


def after_headers(data: Any, pos: int, stop: int) -> int:
    """The position after the headers; -1."""
    left, pos = number_32(data, pos, stop)
    if left < 0:
        return -1
    while left > 0 and pos >= 0:  # it ends with the record's bytes, whatever the count says
        left -= 1
        size, pos = number_32(data, pos, stop)
        if pos < 0 or size < 0 or size > stop - pos:
            return -1
        if not is_utf8(data, pos, pos + size):
            return -1
        pos = after_sized(data, pos + size, stop)
    return pos
