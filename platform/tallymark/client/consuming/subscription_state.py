"""How far each owned partition has come: fetched, taken by the application, stored."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tallymark.client.consuming.assignment import Assignment
from tallymark.client.consuming.marks import NO_MARKS, Marks
from tallymark.client.consuming.reading import Reading
from tallymark.coordination.consumers.offsets import UNKNOWN_EPOCH, Position
from tallymark.errors import CODES, CommitFailedError, UserError
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.topic_partition import TopicPartition

_EPOCHS_KEPT: Final = 64


class PartitionProgress:
    """One owned partition. The fetcher's thread moves ``fetch``, the application's ``taken``.

    ``fetch`` is where to fetch next, None until the reset policy was asked; ``taken`` the next
    offset after the last message handed out, None before there is one; ``stored`` what the offset
    registry holds. ``active`` ends when the partition is given up; it changes and is looked at
    under the stream's lock; ``marks`` are the stream's. Positions are replaced whole, so reading
    one needs no lock.
    """

    __slots__ = (
        "_epochs",
        "_reading",
        "_taken",
        "active",
        "failures",
        "fetch",
        "marks",
        "partition",
        "retry_at",
        "stored",
        "stream",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, partition: int, stream: int = 0, stored: Position | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.stream = stream
        self.stored = stored
        self.fetch = stored
        self._taken: Position | None = None
        self._reading: Reading | None = None
        self.marks: Marks = NO_MARKS
        self.active = True
        self.retry_at = 0.0
        self.failures = 0
        self.topic_id = ZERO_UUID
        """Of the topic that it was fetched from last."""
        self._epochs: list[tuple[int, int]] = []
        if stored is not None:
            self._epochs.append((stored.offset - 1, stored.epoch))

    def moved_to(self, offset: int) -> PartitionProgress:
        """The same partition as the application wants it: from ``offset`` on."""
        item = PartitionProgress(self.topic, self.partition, self.stream)
        item.stored = self.stored
        item.fetch = item._taken = Position(offset)
        item.topic_id = self.topic_id
        return item

    @property
    def taken(self) -> Position | None:
        """How far the application has come."""
        reading = self._reading
        return (reading.taken() if reading is not None else None) or self._taken

    def read(self, reading: Reading) -> None:
        """These messages are handed out from now on, without further word."""
        self._note_epoch(reading.offsets[0], reading.epoch)
        self._taken = self.taken
        self._reading = reading

    def take(self, offset: int, next_offset: int, epoch: int) -> None:
        """The message at ``offset`` was handed out; the next one is at ``next_offset``."""
        self._note_epoch(offset, epoch)
        self._taken, self._reading = Position(next_offset, epoch), None

    def move(self, offset: int, epoch: int) -> None:
        """All messages before ``offset`` were handed out or are not there: go on from it, maybe
        backwards, when the log was cut."""
        self._epochs = [entry for entry in self._epochs if entry[0] < offset]
        if epoch != UNKNOWN_EPOCH and (not self._epochs or self._epochs[-1][1] != epoch):
            self._epochs.append((offset - 1, epoch))
        self._taken, self._reading = Position(offset, self.position(offset).epoch), None

    def position(self, offset: int) -> Position:
        """``offset`` with the leader epoch of the record before it, as far as it was seen."""
        for first, epoch in reversed(self._epochs):
            if first < offset:
                return Position(offset, epoch)
        return Position(offset)

    def _note_epoch(self, offset: int, epoch: int) -> None:
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((offset, epoch))
            del self._epochs[:-_EPOCHS_KEPT]


class Handed(NamedTuple):
    """How far the application had come at one moment (None: ask now), and afterwards, what it may
    still be at work on: progress -> its first offset. In the other order a message that is handed
    out in between would count as dealt with."""

    taken: Mapping[PartitionProgress, Position] | None = None
    held: Mapping[PartitionProgress, int] = MappingProxyType({})


def not_owned(place: TopicPartition) -> CommitFailedError:
    """The error of a call for a partition that is another consumer's."""
    text = f"{place[0]}-{place[1]} is not owned by this consumer (any more)"
    return CommitFailedError(CODES["ILLEGAL_GENERATION"], text)


class SubscriptionState:
    """The progress of all owned partitions. Safe from any thread.

    ``changing`` is held while partitions or positions are changed, until streams and
    fetcher know it as well.
    """

    def __init__(self) -> None:
        self.changing = threading.RLock()
        self._lock = threading.Lock()
        self._items: dict[TopicPartition, PartitionProgress] = {}

    def start(
        self, assignment: Assignment, stored: Mapping[TopicPartition, Position]
    ) -> list[PartitionProgress]:
        """Own these partitions from now on, and no others; returns their progress, sorted."""
        self.forget()
        return self.add(assignment, stored)

    def add(
        self, assignment: Assignment, stored: Mapping[TopicPartition, Position]
    ) -> list[PartitionProgress]:
        """Own these partitions, too; returns the progress of all, sorted."""
        items = {
            place: PartitionProgress(*place, stream, stored.get(place))
            for place, stream in assignment.items()
        }
        with self._lock:
            self._items = dict(sorted((self._items | items).items()))
            return list(self._items.values())

    def forget(self, places: Iterable[TopicPartition] | None = None) -> None:
        """Own these (None: all) no longer."""
        with self._lock:
            gone = set(self._items if places is None else places)
            self._items = {at: item for at, item in self._items.items() if at not in gone}

    def item(self, place: TopicPartition) -> PartitionProgress:
        """The progress of an owned partition. CommitFailedError when it is not owned (any more):
        its new owner goes on from what was stored before."""
        with self._lock:
            item = self._items.get(place)
        if item is None:
            raise not_owned(place)
        return item

    def replace(self, item: PartitionProgress) -> None:
        """From now on this is the progress of its partition, if that is owned."""
        with self._lock:
            if (item.topic, item.partition) in self._items:
                self._items[item.topic, item.partition] = item

    def items(self) -> list[PartitionProgress]:
        """All of it, sorted by topic and partition."""
        with self._lock:
            return list(self._items.values())

    def taken(self) -> dict[PartitionProgress, Position]:
        """How far the application has come in each partition in which it has come anywhere."""
        found = ((item, item.taken) for item in self.items())
        return {item: at for item, at in found if at is not None}

    def uncommitted(self, handed: Handed | None = None) -> dict[TopicPartition, Position]:
        """Where the application had come to (None: has come to, with all that it has in hand), for
        the owned partitions whose stored offset differs; without what it may still be at work
        on."""
        taken, held = handed or Handed()
        found: dict[TopicPartition, Position] = {}
        for item in self.items():
            at, stored = item.taken if taken is None else taken.get(item), item.stored
            first = held.get(item)
            if at is not None and first is not None and first < at.offset:
                if stored is not None and first < stored.offset <= at.offset:
                    continue  # the application itself has stored what it is at work on
                at = item.position(first)
            if at is not None and at != stored:
                found[item.topic, item.partition] = at
        return found

    def come_to(self, handed: Handed) -> dict[TopicPartition, int]:
        """Where the application had come to in every partition, stored or not, without what it has
        in hand."""
        found: dict[TopicPartition, int] = {}
        for item in self.items():
            at = item.taken if handed.taken is None else handed.taken.get(item)
            if at is not None:
                first = handed.held.get(item, at.offset)
                found[item.topic, item.partition] = min(at.offset, first)
        return found

    def positions(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Position]:
        """Offsets of the application's own choice, with their epochs.

        UserError for what is no offset; CommitFailedError as of :meth:`item`.
        """
        found: dict[TopicPartition, Position] = {}
        for place, offset in offsets.items():
            topic, partition = place
            if type(offset) is not int or offset < 0:
                raise UserError(f"{offset!r} is no offset of {topic}-{partition}", "give 0 or more")
            found[place] = self.item(place).position(offset)
        return found

    def mark_stored(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These were stored."""
        with self._lock:
            for place, position in positions.items():
                if place in self._items:
                    self._items[place].stored = position
