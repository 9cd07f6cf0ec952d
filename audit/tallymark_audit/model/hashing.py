"""Hashes that add up: of sequences, where there are too many ranges to keep, and of contents.

A sum modulo 2^64 of well-mixed hashes does not depend on the order, and sums of parts add up to the
sum of the whole; two different multisets agree by chance once in 2^64.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Final, cast

from tallymark_audit.model.ranges import RangeSet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tallymark.protocol.schema import Buffer

MASK: Final = (1 << 64) - 1
BLOCK: Final = 1024
"""Sequences in one block of the content check."""
_FEW: Final = 256
_SOME: Final = 16
"""Fewer contents than this are hashed faster one by one."""
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
        numbers = np.arange(start, min(last, start + _AT_ONCE - 1) + 1, dtype=np.uint64)
        total += int(_mix_all(numbers).sum(dtype=np.uint64))
    return total & MASK


def _mix_all(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """:func:`mix` of each."""
    import numpy as np

    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def content(sequence: int, key: Buffer | None, value: Buffer | None) -> int:
    """The hash of one record, 64 bits: of its identity and its contents. A key or value that is
    None differs from an empty one. CRCs see every error of up to 32 bits in a row; they are mixed
    with the sequence so that two records that changed places do not cancel."""
    return mix(mix(sequence) ^ _checksum(key, value))


def content_sums(
    first: int,
    keys: Sequence[Buffer | None] | None,
    values: Sequence[Buffer | None],
    starts: Sequence[int],
) -> list[int]:
    """The sums, modulo 2^64, of :func:`content` of the records with the sequences ``first``,
    ``first + 1`` ...: of those from each of ``starts`` (places among the values, rising, the first
    is 0) to the next. ``keys`` None: no record has one."""
    if len(values) < _SOME:
        hashes = list(map(content, count(first), keys or repeat(None), values))
        ends = [*starts[1:], len(values)]
        return [sum(hashes[a:b]) & MASK for a, b in zip(starts, ends, strict=True)]
    import numpy as np

    checksums = _low_checksums(values)
    if keys is not None and keys.count(None) < len(keys):
        checksums |= _high_checksums(keys)
    numbers = np.arange(first, first + len(values), dtype=np.uint64)
    found = _mix_all(_mix_all(numbers) ^ checksums)
    sums: list[int] = np.add.reduceat(found, starts).tolist()
    return sums


def _low_checksums(values: Sequence[Buffer | None]) -> NDArray[np.uint64]:
    import numpy as np

    if None in values:
        return np.array([_low(value) for value in values], dtype=np.uint64)
    return np.fromiter(map(zlib.crc32, cast("Sequence[Buffer]", values)), np.uint64, len(values))


def _high_checksums(keys: Sequence[Buffer | None]) -> NDArray[np.uint64]:
    import numpy as np

    return np.fromiter(map(_high, keys), np.uint64, len(keys)) << np.uint64(32)


def _checksum(key: Buffer | None, value: Buffer | None) -> int:
    return _high(key) << 32 | _low(value)


def _low(value: Buffer | None) -> int:
    return zlib.crc32(value) if value is not None else 0x6E756C6C


def _high(key: Buffer | None) -> int:
    return zlib.crc32(key, len(key) + 1) if key is not None else 0
