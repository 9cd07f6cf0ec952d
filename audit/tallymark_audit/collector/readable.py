"""Batches that cannot be read: what stands before them is counted, and whether they lie in the log
or were only damaged on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.errors import CorruptMessageError, CorruptRecordError
from tallymark.protocol.records import Batch
from tallymark_audit.collector.reading import FetchedLike
from tallymark_audit.store.counts import Place

TIMES: Final = 3
"""How often in a row a batch has to be unreadable before it counts as damaged in the log."""


@dataclass(frozen=True, slots=True)
class ReadablePart:
    """A fetch up to a batch that does not decode; a :class:`.reading.FetchedLike`."""

    high_watermark: int
    log_start_offset: int
    batches: Sequence[Batch]
    left_out: Sequence[Batch]
    next_offset: int
    last_epoch: int


def readable_part(fetched: FetchedLike, place: Place, start: int) -> ReadablePart:
    """What stands before the first batch that does not decode. CorruptMessageError: it is the first
    one that holds anything at ``start`` or behind."""
    kept: list[Batch] = []
    left_out: list[Batch] = []
    whole = {batch.header.base_offset for batch in fetched.batches}
    end, epoch = start, -1
    both = sorted((*fetched.batches, *fetched.left_out), key=lambda one: one.header.base_offset)
    for batch in both:
        try:
            if not batch.header.is_control:
                batch.records()
        except CorruptRecordError as error:
            if end == start:
                raise CorruptMessageError(*place, batch.header.base_offset, error) from error
            break
        (kept if batch.header.base_offset in whole else left_out).append(batch)
        end, epoch = batch.header.next_offset, batch.header.partition_leader_epoch
    return ReadablePart(
        fetched.high_watermark, fetched.log_start_offset, kept, left_out, end, epoch
    )


class Met:
    """How often in a row the same batch of a partition could not be read."""

    def __init__(self) -> None:
        self._met: dict[Place, tuple[int, int]] = {}

    def is_lasting(self, place: Place, offset: int) -> bool:
        """It was met once more; whether that is often enough."""
        known, times = self._met.get(place, (offset, 0))
        times = times + 1 if known == offset else 1
        self._met[place] = (offset, times)
        return times >= TIMES

    def forget(self, place: Place) -> None:
        """The partition could be read."""
        self._met.pop(place, None)
