"""What one task counted of one cell, and how the parts of several tasks are put together. Pure.

Tallies travel from tasks to the driver, and with a load's commit into its table
(:mod:`.codec` writes them as JSON and as Arrow). A cell that several tasks saw, in several
partitions or in several stretches of one, has a tally of each: :func:`merged` makes one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark_audit.model.cells import Block, CellKey, Copy
from tallymark_spark_jobs.counting.digests import BITS
from tallymark_spark_jobs.counting.intervals import Range, levels, size, union

COPIES_NAMED: Final = 1000
"""Of each cell so many further copies are named; all are counted."""


@dataclass(frozen=True, slots=True)
class CellTally:
    """What was counted of one cell. ``topic`` of the key is the log's, ``partition`` the origin's;
    without a readable stamp server and instance are ``""`` and the partition is the one that holds
    the records. Records of aborted transactions have a tally of their own (``aborted``), and none
    without a stamp.

    ``messages`` counts every copy, ``extra`` those beyond the first of a sequence, ``bytes`` those
    of keys and values, ``malformed`` the stamps that could not be read. ``ranges`` are the
    sequences, sorted, disjoint, with both ends; ``()`` without a stamp. ``again``: the sequences
    that are there at least twice, at least three times ... (100 times at most), as such ranges.
    ``copies`` names further copies, :data:`COPIES_NAMED` at most: of those that two tasks saw once
    each none is named. ``digest_xor`` and ``digest_sum`` are of every copy, see
    :mod:`tallymark_spark_jobs.counting.digests`; 0 without a stamp. ``first_partition`` to
    ``last_partition`` hold the records, at offsets from ``first_offset`` to ``last_offset``;
    timestamps are ms. ``blocks`` are of the content check, where contents were hashed."""

    key: CellKey
    aborted: bool
    messages: int
    extra: int
    bytes: int
    malformed: int
    ranges: tuple[Range, ...]
    copies: tuple[Copy, ...]
    digest_xor: int
    digest_sum: int
    first_partition: int
    last_partition: int
    first_offset: int
    last_offset: int
    min_timestamp: int
    max_timestamp: int
    blocks: tuple[Block, ...] = ()
    again: tuple[tuple[Range, ...], ...] = ()


def merged(tallies: Iterable[CellTally]) -> list[CellTally]:
    """One tally a cell (and one more for what was aborted of it), in the order in which the cells
    came first. What two tallies both have is counted as further copies. Takes the time of sorting
    the ranges, however many tallies a cell has."""
    by_cell: dict[tuple[CellKey, bool], list[CellTally]] = {}
    for tally in tallies:
        by_cell.setdefault((tally.key, tally.aborted), []).append(tally)
    return [_one(parts) for parts in by_cell.values()]


def _one(parts: Sequence[CellTally]) -> CellTally:
    if len(parts) == 1:
        return parts[0]
    xor = 0
    for part in parts:
        xor ^= part.digest_xor
    ranges, again = _together(parts)
    messages = sum([part.messages for part in parts])
    return CellTally(
        key=parts[0].key,
        aborted=parts[0].aborted,
        messages=messages,
        extra=messages - size(ranges) if ranges else 0,
        bytes=sum([part.bytes for part in parts]),
        malformed=sum([part.malformed for part in parts]),
        ranges=ranges,
        copies=_named(parts),
        digest_xor=xor,
        digest_sum=sum([part.digest_sum for part in parts]) & BITS,
        first_partition=min([part.first_partition for part in parts]),
        last_partition=max([part.last_partition for part in parts]),
        first_offset=min([part.first_offset for part in parts]),
        last_offset=max([part.last_offset for part in parts]),
        min_timestamp=min([part.min_timestamp for part in parts]),
        max_timestamp=max([part.max_timestamp for part in parts]),
        blocks=blocks_together(block for part in parts for block in part.blocks),
        again=again,
    )


def _together(
    parts: Sequence[CellTally],
) -> tuple[tuple[Range, ...], tuple[tuple[Range, ...], ...]]:
    """``ranges`` and ``again`` of all parts."""
    seen = [pair for part in parts for pair in part.ranges]
    if not any(part.again for part in parts):
        once = union(seen)
        if size(once) == size(seen):
            return once, ()
    seen += [pair for part in parts for level in part.again for pair in level]
    found = levels(seen)
    return (found[0], found[1:]) if found else ((), ())


def _named(parts: Sequence[CellTally]) -> tuple[Copy, ...]:
    """As many as are named, in the order of their sequences."""
    named = [copy for part in parts for copy in part.copies]
    named.sort(key=lambda copy: (copy.sequence, copy.partition, copy.offset))
    return tuple(named[:COPIES_NAMED])


def blocks_together(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks of the content check, whose parts add up: one a number, in order."""
    found: dict[int, tuple[int, int]] = {}
    for number, records, hashed in blocks:
        before, other = found.get(number, (0, 0))
        found[number] = (before + records, other + hashed & BITS)
    return tuple(Block(number, *found[number]) for number in sorted(found))
