"""Where a log goes on behind a batch that cannot be read. No I/O of its own.

What was sent under a right CRC will never be anything else, and its header is as right as its
CRC: the log goes on behind the offsets that it claims. Where the CRC does not hold, the header may
be damaged as well. So what it says is believed only if the log bears it out, that is if what is
read from there on begins there; else what can be read next is looked for, in steps that double::

    offset   20 ✗ header says 30          30 ✓ begins there        goes on at 30
    offset   20 ✗ header says 1054        21 ✗  22 ✗  24 ✗  28 ✗  36 ✓ holds 30-39    goes on at 30
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tallymark.errors import BatchCutError, CorruptMessageError
from tallymark.protocol.records.batch import Batch

TIMES: Final = 3
"""How often in a row a batch has to be unreadable before it counts as damaged in the log, where its
CRC does not hold: it may have been damaged on the way."""


class FetchedBatches(Protocol):
    """What is used of a fetch."""

    @property
    def batches(self) -> Sequence[Batch]: ...
    @property
    def left_out(self) -> Sequence[Batch]: ...


Fetch = Callable[[int], FetchedBatches]
"""Reads from an offset on, with CRCs checked. CorruptMessageError: the first batch is broken."""


class Met:
    """How often in a row the same batch of a partition could not be read. For one thread."""

    def __init__(self) -> None:
        self._met: dict[tuple[str, int], tuple[int, int]] = {}

    def is_lasting(self, error: CorruptMessageError) -> bool:
        """It was met once more; whether it lies in the log like that for certain."""
        place = (error.topic, error.partition)
        known, times = self._met.get(place, (error.offset, 0))
        times = times + 1 if known == error.offset else 1
        self._met[place] = (error.offset, times)
        return error.intact or (times >= TIMES and not isinstance(error, BatchCutError))

    def forget(self, topic: str, partition: int) -> None:
        """The partition could be read."""
        self._met.pop((topic, partition), None)


def goes_on_at(error: CorruptMessageError, fetch: Fetch, end: int) -> int:
    """The offset behind the batch that cannot be read, of a log that ends at ``end``; ``end`` where
    nothing behind it can be read either. What ``fetch`` raises beside CorruptMessageError: the log
    cannot be asked now."""
    if error.intact:
        return error.next_offset
    if error.offset < error.next_offset <= end:
        begins = _begins(error.next_offset, fetch, end)
        if begins is not None:
            return begins
    return _next_readable(error.offset, fetch, end)


def _begins(at: int, fetch: Fetch, end: int) -> int | None:
    """Where the batch at ``at`` begins, or the one behind a hole there; None: it lies inside one.
    Another one that cannot be read may stand there."""
    if at >= end:
        return at
    try:
        first = _first(fetch(at))
    except CorruptMessageError:
        return at
    return None if first is None or first < at else first


def _next_readable(bad: int, fetch: Fetch, end: int) -> int:
    """The first offset of the first sound batch behind ``bad``, as far as steps find it."""
    step, low, high = 1, bad, end
    while bad + step < end:
        found = _sound(bad + step, bad, fetch)
        if found is not None:
            high = found
            break
        low, step = bad + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        found = _sound(middle, bad, fetch)
        if found is None:
            low = middle
        else:
            high = min(high, found)
    return high


def _sound(at: int, bad: int, fetch: Fetch) -> int | None:
    """Where the batch begins that is read at ``at``; None: it is the bad one, or another one."""
    try:
        first = _first(fetch(at))
    except CorruptMessageError:
        return None
    return None if first is None or first <= bad else first


def _first(found: FetchedBatches) -> int | None:
    offsets = [batch.header.base_offset for batch in (*found.batches, *found.left_out)]
    return min(offsets, default=None)
