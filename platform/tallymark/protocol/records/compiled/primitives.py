"""Reading numbers and text from bytes: what the compiled loops call.

``data`` is indexed by positions that were compared with its end before: compiled code checks no
index itself. Arithmetic is that of 64-bit integers.
"""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 0x7FFF_FFFF_FFFF_FFFF
_LEAST: Final = -MOST - 1
_LONGEST_VARINT: Final = 10


def varint(data: Any, pos: int, stop: int) -> tuple[int, int]:
    """The zigzag varint at ``pos`` and the position after it; -1 where it has no end before
    ``stop`` within ten bytes, or more than 64 bits."""
    if pos >= stop:
        return 0, -1
    byte = data[pos] & 0x7F
    if byte == data[pos]:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = byte
    shift = 7
    last = min(stop, pos + _LONGEST_VARINT)
    pos += 1
    while pos < last:
        byte = data[pos] & 0x7F
        value |= byte << shift  # the tenth byte's bit is the sign of 64 bits
        if byte == data[pos]:
            if shift == 63 and byte > 1:
                return 0, -1
            return ((value >> 1) & MOST) ^ -(value & 1), pos + 1
        pos += 1
        shift += 7
    return 0, -1


def integer(data: Any, pos: int, size: int) -> int:
    """The signed integer of ``size`` bytes, the highest first."""
    value: int = data[pos] & 0x7F
    if value != data[pos]:
        value -= 0x80
    for at in range(pos + 1, pos + size):
        value = value * 256 + (data[at] & 0xFF)
    return value


def no_room(base: int, delta: int) -> bool:
    """Whether the sum has more than 64 bits."""
    return base > MOST - delta if delta > 0 else base < _LEAST - delta


def is_utf8(data: Any, pos: int, end: int) -> bool:
    """Whether the bytes are UTF-8, as RFC 3629 has it: no surrogates, no longer forms than needed,
    nothing above U+10FFFF."""
    while pos < end:
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if more > end - pos:
            return False
        for _ in range(more):
            if data[pos] < low or data[pos] > high:
                return False
            low, high = 0x80, 0xBF
            pos += 1
    return True
