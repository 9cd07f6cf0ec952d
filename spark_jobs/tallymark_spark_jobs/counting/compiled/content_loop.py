"""The hash of a record's contents: loops that are compiled.

They do what :func:`tallymark_audit.model.hashing.content` does, the reference.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.records.compiled.layout import KEY, KEY_SIZE, VALUE, VALUE_SIZE

_NULL: Final = 0x6E756C6C
_LOW: Final = 0xFFFF_FFFF
# The constants of splitmix64, as signed numbers.
_STEP: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND: Final = 0x94D049BB133111EB - (1 << 64)


def is_inside(source: Any, columns: Any, at: int) -> bool:
    """Whether key and value of a record are within its buffer."""
    key, key_size = columns[KEY, at], columns[KEY_SIZE, at]
    value, value_size = columns[VALUE, at], columns[VALUE_SIZE, at]
    return bool(
        (key_size <= 0 or (key >= 0 and key_size <= len(source) - key))
        and (value_size <= 0 or (value >= 0 and value_size <= len(source) - value))
    )


def content_of(crcs: Any, source: Any, columns: Any, at: int, sequence: int) -> int:
    """:func:`tallymark_audit.model.hashing.content` of a record, as a signed number."""
    key_size, value_size = columns[KEY_SIZE, at], columns[VALUE_SIZE, at]
    low, high = _NULL, 0
    if value_size >= 0:
        low = crc_of(crcs, source, columns[VALUE, at], value_size, 0)
    if key_size >= 0:
        high = crc_of(crcs, source, columns[KEY, at], key_size, (key_size + 1) & _LOW)
    return mix_one(mix_one(sequence) ^ (high << 32 | low))


def mix_one(number: int) -> int:
    """:func:`tallymark_audit.model.hashing.mix`: products of 64 bits overflow on purpose."""
    z = number + _STEP
    z = (z ^ ((z >> 30) & 0x3_FFFF_FFFF)) * _FIRST
    z = (z ^ ((z >> 27) & 0x1F_FFFF_FFFF)) * _SECOND
    return z ^ ((z >> 31) & 0x1_FFFF_FFFF)


def crc_of(crcs: Any, data: Any, pos: int, size: int, crc: int) -> int:
    """``zlib.crc32`` of so many bytes, continued from ``crc``. ``crcs[n]``: of each byte the CRC
    with ``n`` zero bytes behind, so that eight bytes are taken at once."""
    crc ^= _LOW
    stop = pos + size
    while stop - pos >= 8:
        folded = 0
        for step in range(8):
            byte = data[pos + step]
            if step < 4:
                byte ^= crc >> 8 * step & 0xFF
            folded ^= crcs[7 - step, byte]
        crc = folded
        pos += 8
    for at in range(pos, stop):
        crc = crc >> 8 ^ crcs[0, (crc ^ data[at]) & 0xFF]
    return crc ^ _LOW
