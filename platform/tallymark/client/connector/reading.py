"""The batch that the application is at, handed out message by message without a lock.

A lock around each message would cost more than the message. What makes it right without one is
that taking from a deque is atomic: a message is taken either by the application, from the left, or
by who takes the partition away (:meth:`Reading.cut`), from the right; never by both. How far the
application has come is then what is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tallymark.client.reading.message import Message
from tallymark.coordination.offsets import Position
from tallymark.protocol.record_columns import RecordColumns


class Reading:
    """Messages of one batch, at least one. ``next_offset`` follows the batch, ``epoch`` is its
    leader epoch. Read by any thread; ``left`` is taken from by one, :meth:`cut` by another."""

    __slots__ = ("_cut", "columns", "epoch", "left", "next_offset")

    def __init__(
        self, columns: RecordColumns, found: Iterable[Message], next_offset: int, epoch: int
    ) -> None:
        self.columns = columns
        self.left = deque(found)
        """What is not handed out yet: take it by ``popleft``."""
        self.next_offset = next_offset
        self.epoch = epoch
        self._cut = 0

    @property
    def handed(self) -> int:
        """How many were handed out; one too few for a moment while :meth:`cut` works."""
        return len(self.columns) - len(self.left) - self._cut

    def last(self) -> int:
        """Offset of the last one that was handed out; there must be one."""
        return self.columns.offsets[self.handed - 1]

    def taken(self) -> Position | None:
        """Behind the last one that was handed out; None before the first."""
        handed = self.handed
        if handed <= 0:
            return None
        if handed == len(self.columns):
            return Position(self.next_offset, self.epoch)
        return Position(self.columns.offsets[handed - 1] + 1, self.epoch)

    def cut(self) -> None:
        """Hand out nothing more: what was handed out before is final when this returns."""
        while True:
            self._cut += 1  # before it is taken, or it would count as handed out for a moment
            try:
                self.left.pop()
            except IndexError:
                self._cut -= 1
                return
