"""What part of a fetch can be read, and how much of it at once.

Batches are unpacked one by one, in the order of the log. A batch that does not decode, or is larger
than allowed (:func:`tallymark.protocol.records.compression.usual_max_size`), is a *hole*: batches
before and behind it are counted. After :data:`AT_ONCE` bytes the rest of the fetch is left for the
next round, so that highly compressed batches in one partition delay the others no longer than
that::

    fetched   │ good │ bad │ bad │ good │ 30 MB │ 30 MB │ ...
    read      │ ✓    │ one hole  │ ✓    │ ✓     │         next round: from here on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.columns import RecordColumns
from tallymark_audit.model.log_reader import FetchedLike
from tallymark_audit.store.counted.damage import UnreadableSpan

AT_ONCE: Final = 32 * 1024 * 1024
"""Bytes, unpacked; one batch at least."""
Take = Callable[[Batch, RecordColumns, bool], None]


@dataclass(frozen=True, slots=True)
class Read:
    """How far a fetch was read: up to ``next_offset``, and where it could not be."""

    next_offset: int
    last_epoch: int
    holes: Sequence[UnreadableSpan] = ()


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """Batches that were read apart from others; a
    :class:`tallymark_audit.model.log_reader.FetchedLike`."""

    batches: Sequence[Batch]
    left_out: Sequence[Batch]
    next_offset: int
    high_watermark: int
    log_start_offset: int = 0
    last_epoch: int = -1
    last_stable_offset: int = -1


def read_part(fetched: FetchedLike, start: int, take: Take) -> Read:
    """Hand the batches with records at ``start`` or behind to ``take``: each with its records, and
    whether its transaction was aborted."""
    size, newest, number = 0, -1, 0
    holes: list[UnreadableSpan] = []
    batches = _in_order(fetched) if fetched.left_out else fetched.batches
    dropped = {id(batch) for batch in fetched.left_out}
    for batch in batches:
        header = batch.header
        number += 1
        if not header.is_control:
            try:
                columns = batch.columns(batch.usual_max_size)
            except CorruptRecordError as error:
                first = max(start, header.base_offset)
                hole = UnreadableSpan(first, header.next_offset, str(error), newest, final=True)
                _add(holes, hole)
                continue
            newest = header.max_timestamp
            if holes:
                _until(holes, newest)
            aborted = bool(dropped) and id(batch) in dropped
            take(batch, columns.since(start) if header.base_offset < start else columns, aborted)
            size += columns.size
            if size >= AT_ONCE and number < len(batches):
                return Read(header.next_offset, header.partition_leader_epoch, holes)
    return Read(fetched.next_offset, fetched.last_epoch, holes)


def _in_order(fetched: FetchedLike) -> list[Batch]:
    return sorted((*fetched.batches, *fetched.left_out), key=lambda batch: batch.header.base_offset)


def _add(holes: list[UnreadableSpan], hole: UnreadableSpan) -> None:
    """Bad batches that follow one another are one."""
    if holes and holes[-1].end == hole.start:
        holes[-1] = replace(holes[-1], end=hole.end)
    else:
        holes.append(hole)


def _until(holes: list[UnreadableSpan], timestamp: int) -> None:
    """The time of what follows the last hole."""
    if holes[-1].until < 0:
        holes[-1] = replace(holes[-1], until=timestamp)


def without(
    holes: Iterable[UnreadableSpan], known: Iterable[UnreadableSpan]
) -> list[UnreadableSpan]:
    """Those that do not lie within a known one."""
    known = list(known)
    return [
        hole
        for hole in holes
        if not any(one.start <= hole.start and hole.end <= one.end for one in known)
    ]
