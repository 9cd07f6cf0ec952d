"""Hashes that add up: of sequences, where there are too many ranges to keep, and of contents.

A sum modulo 2^64 of well-mixed hashes does not depend on the order, and sums of parts add up to the
sum of the whole; two different multisets agree by chance once in 2^64.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from tallymark_audit.ranges import RangeSet

MASK: Final = (1 << 64) - 1
BLOCK: Final = 1024
"""Sequences in one block of the content check."""
_FEW: Final = 256
_AT_ONCE: Final = 1 << 20


def mix(number: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): 64 bits to 64 bits."""
    z = (number + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def fingerprint(sequences: RangeSet) -> int:
    """The sum of :func:`mix` over the sequences, modulo 2^64."""
    return sum(_sum(first, last) for first, last in sequences.ranges) & MASK


def _sum(first: int, last: int) -> int:
    if last - first < _FEW:
        return sum(map(mix, range(first, last + 1)))
    import numpy as np  # here: every producer loads this module, and hardly any comes by

    total = 0
    for start in range(first, last + 1, _AT_ONCE):
        z = np.arange(start, min(last, start + _AT_ONCE - 1) + 1, dtype=np.uint64)
        z += np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total += int((z ^ (z >> np.uint64(31))).sum(dtype=np.uint64))
    return total & MASK


def content(sequence: int, key: bytes | memoryview | None, value: bytes | memoryview | None) -> int:
    """The hash of one record, 64 bits: of which it is and what it holds. A key or value that is
    None differs from an empty one. CRCs see every error of up to 32 bits in a row; they are mixed
    with the sequence so that two records that changed places do not cancel."""
    low = zlib.crc32(value) if value is not None else 0x6E756C6C
    high = zlib.crc32(key, len(key) + 1) if key is not None else 0
    return mix(mix(sequence) ^ (high << 32 | low))


def sums(hashes: Iterable[int]) -> int:
    """Their sum modulo 2^64."""
    return sum(hashes) & MASK
