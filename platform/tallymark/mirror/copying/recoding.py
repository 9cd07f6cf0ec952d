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


def ranges_of(records: Sequence[Record]) -> list[Range]:
    """The offsets of the records (one at least), as ranges."""
    first = last = records[0].offset
    if records[-1].offset - first == len(records) - 1:
        return [(first, records[-1].offset)]
    found: list[Range] = []
    for record in records[1:]:
        if record.offset != last + 1:
            found.append((first, last))
            first = record.offset
        last = record.offset
    return [*found, (first, last)]


def gaps_of(records: Sequence[Record], start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [``start``, ``end``) without a record, as [first, next) each; ``start`` UNKNOWN:
    from the first record on."""
    at, found = start, list[tuple[int, int]]()
    for first, last in ranges_of(records) if records else ():
        if at not in (UNKNOWN, first):
            found.append((at, first))
        at = last + 1
    if at not in (UNKNOWN, end):
        found.append((at, end))
    return found
