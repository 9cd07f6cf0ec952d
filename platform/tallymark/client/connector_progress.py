"""How far each owned partition has come: fetched, taken by the application, stored."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from tallymark.client.rebalance import Assignment, TopicPartition
from tallymark.coordination.offsets import UNKNOWN_EPOCH, Position
from tallymark.errors import CODES, KafkaError, UserError

_EPOCHS_KEPT: Final = 64


class PartitionProgress:
    """One owned partition. The fetcher's thread moves ``fetch``, the application's ``taken``.

    ``fetch`` is where to fetch next, None until the reset policy was asked; ``taken`` the next
    offset after the last message handed out, None before there is one; ``stored`` what the offset
    registry holds. ``active`` ends when the partition is given up; it changes and is looked at
    under the stream's lock. Positions are replaced whole, so reading one needs no lock.
    """

    __slots__ = (
        "_epochs",
        "active",
        "failures",
        "fetch",
        "partition",
        "retry_at",
        "stored",
        "stream",
        "taken",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, stream: int = 0, stored: Position | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.stream = stream
        self.stored = stored
        self.fetch = stored
        self.taken: Position | None = None
        self.active = True
        self.retry_at = 0.0
        self.failures = 0
        self._epochs: list[tuple[int, int]] = []
        if stored is not None:
            self._epochs.append((stored.offset - 1, stored.epoch))

    def take(self, offset: int, next_offset: int, epoch: int) -> None:
        """The message at ``offset`` was handed out; the next one is at ``next_offset``."""
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((offset, epoch))
            del self._epochs[:-_EPOCHS_KEPT]
        self.taken = Position(next_offset, epoch)

    def move(self, offset: int, epoch: int) -> None:
        """All messages before ``offset`` were handed out or are not there: go on from it, maybe
        backwards, when the log was cut."""
        self._epochs = [entry for entry in self._epochs if entry[0] < offset]
        if epoch != UNKNOWN_EPOCH and (not self._epochs or self._epochs[-1][1] != epoch):
            self._epochs.append((offset - 1, epoch))
        self.taken = Position(offset, self.position(offset).epoch)

    def position(self, offset: int) -> Position:
        """``offset`` with the leader epoch of the record before it, as far as it was seen."""
        for first, epoch in reversed(self._epochs):
            if first < offset:
                return Position(offset, epoch)
        return Position(offset)


class ProgressBook:
    """The progress of all owned partitions. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[TopicPartition, PartitionProgress] = {}

    def start(
        self, assignment: Assignment, stored: Mapping[TopicPartition, Position]
    ) -> list[PartitionProgress]:
        """Own these partitions from now on; returns their progress, sorted."""
        items = {
            place: PartitionProgress(*place, stream, stored.get(place))
            for place, stream in sorted(assignment.items())
        }
        with self._lock:
            self._items = items
        return list(items.values())

    def forget(self) -> None:
        """Own nothing any more."""
        with self._lock:
            self._items = {}

    def items(self) -> list[PartitionProgress]:
        """All of it, sorted by topic and partition."""
        with self._lock:
            return list(self._items.values())

    def uncommitted(self) -> dict[TopicPartition, Position]:
        """Where the application has come to, for the partitions whose stored offset differs."""
        return {
            (item.topic, item.partition): taken
            for item in self.items()
            if (taken := item.taken) is not None and taken != item.stored
        }

    def positions(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Position]:
        """Offsets of the application's own choice, with their epochs.

        UserError for what is no offset; KafkaError ILLEGAL_GENERATION for a partition that is not
        owned (any more): its new owner goes on from what was stored before.
        """
        found: dict[TopicPartition, Position] = {}
        for place, offset in offsets.items():
            with self._lock:
                item = self._items.get(place)
            topic, partition = place
            if type(offset) is not int or offset < 0:
                raise UserError(f"{offset!r} is no offset of {topic}-{partition}", "give 0 or more")
            if item is None:
                text = f"{topic}-{partition} is not owned by this consumer (any more)"
                raise KafkaError(CODES["ILLEGAL_GENERATION"], text)
            found[place] = item.position(offset)
        return found

    def mark_stored(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These were stored."""
        with self._lock:
            for place, position in positions.items():
                if place in self._items:
                    self._items[place].stored = position
