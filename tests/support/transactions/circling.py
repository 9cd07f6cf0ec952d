"""Texts that copiers send in a circle, from a topic to itself: ``NUMBER/HOP``. Pure.

Each record is copied to the other partition, as its next hop, until it has gone far enough. So the
transactions of two copiers, of which each has one of the partitions, read what the other's have
written, and in a wrong order each other's: only here can a circle (G1c) be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

PARTITIONS = 2


def first(number: int) -> str:
    """What is published."""
    return f"{number}/0"


def parsed(text: str) -> tuple[int, int]:
    """Number and hop."""
    number, _, hop = text.partition("/")
    return int(number), int(hop)


def further(text: str, partition: int, hops: int) -> tuple[str, int] | None:
    """The copy of a text and its partition; None where it has gone ``hops`` already."""
    number, hop = parsed(text)
    return None if hop == hops else (f"{number}/{hop + 1}", PARTITIONS - 1 - partition)


def not_as_sent(read: Sequence[Iterable[str]], published: int, hops: int) -> list[str]:
    """Where the texts of both partitions, in the order of their offsets, are not those of numbers
    0 to ``published`` - 1, number n published to partition n % 2: each hop once, in order."""
    found: list[str] = []
    counted: Counter[tuple[int, int]] = Counter()
    for partition, texts in enumerate(read):
        of_hop: dict[int, list[int]] = {}
        for number, hop in map(parsed, texts):
            counted[number, hop] += 1
            of_hop.setdefault(hop, []).append(number)
            if (number + hop) % PARTITIONS != partition:
                found.append(f"{number}/{hop} is in partition {partition}")
        for hop, numbers in of_hop.items():
            found += [
                f"hop {hop}: {after} after {before}"
                for before, after in pairwise(numbers)
                if after <= before
            ]
    expected = {(number, hop) for number in range(published) for hop in range(hops + 1)}
    found += [
        f"{n}/{hop}: {counted[n, hop]} times"
        for n, hop in sorted(expected | set(counted))
        if counted[n, hop] != 1 or (n, hop) not in expected
    ]
    return found
