"""Ranges that may overlap: how often each number is in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

Range = tuple[int, int]
"""First and last number, both included."""
MOST_LEVELS: Final = 100
"""What is there more often than that is counted, without its sequences."""


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The numbers of all ranges as sorted, disjoint ranges with a number missing between any two.
    Ranges that are sorted already cost next to nothing."""
    found: list[Range] = []
    last_start, end = 0, -1
    for first, last in sorted(ranges):
        if found and first <= end + 1:
            if last > end:
                end = last
                found[-1] = (last_start, end)
        else:
            last_start, end = first, last
            found.append((first, last))
    return tuple(found)


def size(ranges: Iterable[Range]) -> int:
    """How many numbers there are in ranges that do not overlap."""
    return sum([last - first + 1 for first, last in ranges])


def levels(ranges: Sequence[Range]) -> tuple[tuple[Range, ...], ...]:
    """The numbers that are in at least one range, in at least two ... (:data:`MOST_LEVELS` and one
    more at most), each as :func:`union` has them::

        4-6  5-6  6-9    →    4-9, 5-6, 6-6

    Takes the time of a sort, and of what it returns.
    """
    once = union(ranges)
    if sum([last - first + 1 for first, last in ranges]) == size(once):
        return (once,) if once else ()
    changes: dict[int, int] = {}
    for first, last in ranges:
        changes[first] = changes.get(first, 0) + 1
        changes[last + 1] = changes.get(last + 1, 0) - 1
    begun: list[int] = []
    found: list[list[Range]] = []
    depth = 0
    for at in sorted(changes):
        depth = max(0, depth + changes[at])
        told = min(depth, MOST_LEVELS + 1)
        while len(begun) > told:
            level = found[len(begun) - 1]
            level.append((begun.pop(), at - 1))
        while len(begun) < told:
            begun.append(at)
            if len(found) < len(begun):
                found.append([])
    return tuple(union(level) for level in found)
