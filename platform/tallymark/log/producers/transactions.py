"""The transactions of one log: what readers of committed records must not pass. Pure.

The *last stable offset* is where the first transaction begins that is not decided for every reader:
one that is open, or one whose marker the high watermark has not passed, since another leader may
not have that marker::

    0    7a   7b   9x   7ABORT   9y        high watermark: behind 9y
         │         ^ last stable offset    9 is open; 7 is over, and its marker is committed
         ^ before the high watermark has passed 7ABORT, it is here

Without transactions it is the high watermark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class EndedTransaction(NamedTuple):
    """A transaction that has its marker, at ``last_offset``. ``last_stable_offset`` is where the
    first transaction begins that was open when it ended, else the offset behind the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    commit: bool


class OpenTransactions:
    """See the module. Offsets of open transactions ascend in the order in which they begin."""

    __slots__ = ("_ended", "_open")

    def __init__(self, open_: Iterable[tuple[int, int]] = ()) -> None:
        """``open_``: (producer id, first offset) of what is open."""
        self._open = dict(sorted(open_, key=lambda each: each[1]))
        self._ended: deque[EndedTransaction] = deque()
        """By marker, ascending: those that the high watermark may not have passed."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._open.items())

    @property
    def waiting(self) -> int:
        """How many have ended that the high watermark may not have passed."""
        return len(self._ended)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """The first batch of a transaction was written."""
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, commit: bool) -> EndedTransaction | None:
        """A marker was written. None where nothing is open: then it has no effect on readers."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return None
        stable = next(iter(self._open.values()), marker_offset + 1)
        ended = EndedTransaction(producer_id, first, marker_offset, stable, commit)
        self._ended.append(ended)
        return ended

    def keep_ended(self, before: OpenTransactions, end_offset: int) -> None:
        """The log was cut to ``end_offset``, and this was read again from it. What ended below that
        is still to be passed by the high watermark."""
        ended = (*before._ended, *self._ended)
        by_marker = {each.last_offset: each for each in ended if each.last_offset < end_offset}
        self._ended = deque(by_marker[offset] for offset in sorted(by_marker))

    def passed(self, high_watermark: int) -> None:
        """What ended below it is over for readers."""
        while self._ended and self._ended[0].last_offset < high_watermark:
            self._ended.popleft()

    def first_unstable(self, high_watermark: int) -> int | None:
        """Where the first transaction begins that is open, or whose marker is at ``high_watermark``
        or behind it. The high watermark never falls in the life of this object."""
        if not self._open and not self._ended:
            return None
        self.passed(high_watermark)
        unstable = [each.first_offset for each in self._ended]
        unstable.extend(first for first, _ in zip(self._open.values(), range(1), strict=False))
        return min(unstable, default=None)
