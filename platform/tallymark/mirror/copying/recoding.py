"""Encodes records of the source's batches as new batches for the target. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallymark.client.core.partition_layout import Layout
from tallymark.mirror.progress import UNKNOWN, Range
from tallymark.mirror.target.ready_batch import batch_of
from tallymark.protocol.records.batch import Batch, Record


def recode(
    records: Sequence[Record], layout: Layout, source_partition: int, codec: str
) -> Iterator[tuple[int, Batch]]:
    """(partition of the target, its batch); the records of a partition keep their order."""
    if layout.keeps:
        yield source_partition, batch_of(records, codec)
        return
    parts: dict[int, list[Record]] = {}
    for record in records:
        parts.setdefault(layout.partition_of(record.key, source_partition), []).append(record)
    for number, some in sorted(parts.items()):
        yield number, batch_of(some, codec)


def ranges_of(offsets: Sequence[int]) -> list[Range]:
    """The offsets (one at least), as ranges."""
    first = last = offsets[0]
    if offsets[-1] - first == len(offsets) - 1:
        return [(first, offsets[-1])]
    found: list[Range] = []
    for offset in offsets[1:]:
        if offset != last + 1:
            found.append((first, last))
            first = offset
        last = offset
    return [*found, (first, last)]


def gaps_of(offsets: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [``start``, ``end``) that are not among the ``offsets``, as [first, next) each;
    ``start`` UNKNOWN: from the first of them on."""
    at, found = start, list[tuple[int, int]]()
    for first, last in ranges_of(offsets) if offsets else ():
        if at not in (UNKNOWN, first):
            found.append((at, first))
        at = last + 1
    if at not in (UNKNOWN, end):
        found.append((at, end))
    return found
