"""The messages that the application is at, handed out one by one without a lock.

A lock around each message, or any Python at all, would cost more than the message. So columns are
zipped into messages by iterators that are written in C, and iterating a stream goes from one such
*run* to the next::

    stop       [t, t, t]      emptied by :meth:`Reading.stop`: the run ends, for its iterator too
    countdown  0 x 3          how often it was asked is how many messages were handed out
    offsets    7  8  9
    values     .. .. ..

What makes it right without a lock is that making a message is one step for other threads: while it
is made no Python code runs, so the interpreter does not turn to them. It asks ``stop`` first and
the countdown next: whatever the moment, what was counted was handed out, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from operator import length_hint
from typing import Any

from tallymark.client.reading.message import Message
from tallymark.client.reading.message_batch import as_messages
from tallymark.coordination.consumers.offsets import Position
from tallymark.protocol.records.columns import RecordColumns, concatenated, joined

Follow = Callable[[Iterator[int]], Iterator[int]]


class Reading:
    """Messages of one partition, at least one: batches of one leader epoch that follow one another.
    ``next_offset`` follows the last. Read by any thread; handed out by one, :meth:`stop` by any."""

    __slots__ = (
        "_columns",
        "_countdown",
        "_parts",
        "_stop",
        "_topic",
        "epoch",
        "next_offset",
        "offsets",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        epoch: int,
        parts: Sequence[RecordColumns],
        next_offset: int,
    ) -> None:
        self.offsets: Sequence[int] = joined([part.offsets for part in parts])
        self.next_offset = next_offset
        self.epoch = epoch
        self._topic = topic
        self._parts = parts
        self._stop: list[str] = []
        self._countdown = repeat(partition, len(self.offsets))
        self._columns: tuple[Iterator[Any], ...] = (
            iter(self.offsets),
            iter(concatenated([part.timestamps for part in parts])),
            iter(concatenated([part.keys() for part in parts])),
            iter(concatenated([part.values() for part in parts])),
            iter(concatenated([part.headers() for part in parts])),
            repeat(epoch),
        )

    @property
    def size(self) -> int:
        """Bytes of all the records, unpacked."""
        return sum([part.size for part in self._parts])

    @property
    def left(self) -> int:
        """How many were not handed out yet."""
        return length_hint(self._countdown)

    @property
    def handed(self) -> int:
        """How many were handed out."""
        return len(self.offsets) - length_hint(self._countdown)

    def run(self, follow: Follow | None = None) -> Iterator[Message]:
        """What is left, until :meth:`stop`; it ends the run before, too. ``follow`` makes what the
        offsets pass through: it may look at each, in C."""
        self.stop()
        self._stop = [self._topic] * self.left
        offsets, *others = self._columns
        if follow is not None:
            offsets = follow(offsets)
        return as_messages(zip(self._stop, self._countdown, offsets, *others, strict=False))

    def take(self, limit: int) -> list[Message]:
        """Up to ``limit`` of what is left."""
        return list(islice(self.run(), limit))

    def stop(self) -> None:
        """Hand out nothing more: what was handed out before is final when this returns, until the
        next :meth:`run`."""
        self._stop.clear()

    def first(self) -> int:
        """Offset of the first one that is left; there must be one."""
        return self.offsets[self.handed]

    def last(self) -> int:
        """Offset of the last one that was handed out; there must be one."""
        return self.offsets[self.handed - 1]

    def taken(self) -> Position | None:
        """Behind the last one that was handed out; None before the first."""
        handed = self.handed
        if not handed:
            return None
        if handed == len(self.offsets):
            return Position(self.next_offset, self.epoch)
        return Position(self.offsets[handed - 1] + 1, self.epoch)

    def rest(self) -> list[RecordColumns]:
        """What is left, as columns."""
        if not self.left:
            return []
        first = self.first()
        behind = [part for part in self._parts if part.offsets[-1] >= first]
        return [behind[0].since(first), *behind[1:]]
