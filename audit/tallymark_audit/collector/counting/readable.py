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
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True)
class Reading:
    """What of one fetch was read so far: ``size`` bytes, unpacked."""

    start: int
    size: int = 0
    newest: int = -1
    holes: list[UnreadableSpan] = field(default_factory=list[UnreadableSpan])

    def take(self, batch: Batch, aborted: bool, take: Take) -> None:
        """Hand a batch over; if it cannot be read, it is a hole."""
        header = batch.header
        try:
            columns = batch.columns(batch.usual_max_size)
        except CorruptRecordError as error:
            first = max(self.start, header.base_offset)
            hole = UnreadableSpan(first, header.next_offset, str(error), self.newest, final=True)
            _add(self.holes, hole)
            return
        self.passed([header.max_timestamp], columns.size)
        early = header.base_offset < self.start
        take(batch, columns.since(self.start) if early else columns, aborted)

    def passed(self, times: Sequence[int], size: int) -> None:
        """Batches were read: ``times`` are the greatest timestamps of each, of the last one at
        least if there is no hole."""
        if self.holes and self.holes[-1].until < 0:
            until = next((time for time in times if time >= 0), times[-1])
            self.holes[-1] = replace(self.holes[-1], until=until)
        self.newest = times[-1]
        self.size += size


def read_part(fetched: FetchedLike, start: int, take: Take) -> Read:
    """Hand the batches with records at ``start`` or behind to ``take``: each with its records, and
    whether its transaction was aborted."""
    reading = Reading(start)
    batches = in_order(fetched)
    dropped = {id(batch) for batch in fetched.left_out}
    for number, batch in enumerate(batches, 1):
        header = batch.header
        if not header.is_control:
            reading.take(batch, bool(dropped) and id(batch) in dropped, take)
            if reading.size >= AT_ONCE and number < len(batches):
                return Read(header.next_offset, header.partition_leader_epoch, reading.holes)
    return Read(fetched.next_offset, fetched.last_epoch, reading.holes)


def in_order(fetched: FetchedLike) -> Sequence[Batch]:
    """All batches of a fetch, also those of aborted transactions."""
    if not fetched.left_out:
        return fetched.batches
    return sorted((*fetched.batches, *fetched.left_out), key=lambda batch: batch.header.base_offset)


def _add(holes: list[UnreadableSpan], hole: UnreadableSpan) -> None:
    """Bad batches that follow one another are one."""
    if holes and holes[-1].end == hole.start:
        holes[-1] = replace(holes[-1], end=hole.end)
    else:
        holes.append(hole)


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
