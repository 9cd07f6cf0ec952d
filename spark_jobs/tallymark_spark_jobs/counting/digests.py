"""Digests of cells: of every message a number of 64 bits, folded by XOR and by sum.

A cell's digest does not depend on the order of its messages, and the digests of parts fold to that
of the whole. Count, XOR and sum together distinguish a lost message beside a repeated one from two
that are there: the count is the same, the others are not. XOR alone does not see two copies, the
sum alone does not see some swaps of bits.

The number of a message is the output of splitmix64 (Steele, Lea, Flood, OOPSLA 2014) at the place
that its sequence says, of the generator that its cell seeds. It is made again from ranges of
sequences as fast as it is made from messages (:func:`digest_of_ranges`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from tallymark_audit.model.cells import CellKey
from tallymark_spark_jobs.counting.intervals import Range

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

BITS: Final = (1 << 64) - 1
MOST_SEQUENCES: Final = 1 << 32
"""So many sequences are hashed at most: half a minute. A claim of more takes a few bytes."""
_STEP: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_AT_ONCE: Final = 1 << 18
_FEW: Final = 32


@lru_cache(maxsize=8192)
def seed_of(key: CellKey) -> int:
    """The seed of a cell, 64 bits. The topic's name is not in it, since a mirror may change that:
    then the two ends of a hop could not be compared."""
    name = f"{key.partition} {key.window} {key.instance} {key.server}"
    told = name.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "little")


def number_of(seed: int, sequence: int) -> int:
    """The number of one message, 64 bits."""
    z = (seed + (sequence + 1) * _STEP) & BITS
    z = ((z ^ (z >> 30)) * _FIRST) & BITS
    z = ((z ^ (z >> 27)) * _SECOND) & BITS
    return z ^ (z >> 31)


def digest_of_ranges(key: CellKey, ranges: Sequence[Range]) -> tuple[int, int, int]:
    """Count, XOR and sum (both 64 bits, unsigned) that a cell has with each sequence of these
    ranges once. Ranges that overlap count twice. ValueError: more than :data:`MOST_SEQUENCES`, or a
    range that ends before it starts; compare the counts before."""
    count = sum([last - first + 1 for first, last in ranges])
    if count > MOST_SEQUENCES:
        raise ValueError(f"{count} sequences are too many to be hashed")
    if any(last < first or first < 0 for first, last in ranges):
        raise ValueError("a range of sequences ends before it starts")
    seed = seed_of(key)
    if count <= _FEW:
        numbers = [number_of(seed, at) for first, last in ranges for at in range(first, last + 1)]
        folded = 0
        for number in numbers:
            folded ^= number
        return count, folded, sum(numbers) & BITS
    xors, sums = folded_ranges([seed], [0] * len(ranges), ranges)
    return count, xors[0], sums[0]


def folded_ranges(
    seeds: Sequence[int], owners: Sequence[int], ranges: Sequence[Range]
) -> tuple[list[int], list[int]]:
    """XOR and sum of each cell, by its seed. ``owners``: of each range the place of its cell among
    the seeds, rising."""
    import numpy as np  # here: who only reads tallies needs none

    xors, sums = np.zeros(len(seeds), np.uint64), np.zeros(len(seeds), np.uint64)
    all_seeds = np.array(seeds, np.uint64)
    for places, firsts, counts in _portions(owners, ranges):
        owned = np.array(places, np.int64)
        lengths = np.array(counts, np.int64)
        ends = lengths.cumsum()
        # Of each message its place among the generator's numbers, from 1 on.
        starts = np.array(firsts, np.uint64) + np.uint64(1) - (ends - lengths).astype(np.uint64)
        steps = np.arange(int(ends[-1]), dtype=np.uint64) + starts.repeat(lengths)
        numbers = _mixed(steps * np.uint64(_STEP) + all_seeds[owned].repeat(lengths))
        begins = np.flatnonzero(np.diff(owned, prepend=-1))
        at = (ends - lengths)[begins]
        xors[owned[begins]] ^= np.bitwise_xor.reduceat(numbers, at)
        sums[owned[begins]] += np.add.reduceat(numbers, at)
    return xors.tolist(), sums.tolist()


def _portions(
    owners: Sequence[int], ranges: Sequence[Range]
) -> Iterable[tuple[list[int], list[int], list[int]]]:
    """Owner, first and count of ranges that hold about :data:`_AT_ONCE` sequences together; long
    ones are cut."""
    places, firsts, counts, held = list[int](), list[int](), list[int](), 0
    for owner, (first, last) in zip(owners, ranges, strict=True):
        while first <= last:
            count = min(last - first + 1, _AT_ONCE)
            places.append(owner)
            firsts.append(first)
            counts.append(count)
            first, held = first + count, held + count
            if held >= _AT_ONCE:
                yield places, firsts, counts
                places, firsts, counts, held = [], [], [], 0
    if places:
        yield places, firsts, counts


def _mixed(z: Numbers) -> Numbers:
    import numpy as np

    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z
