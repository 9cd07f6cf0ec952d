"""How far a source partition is safely copied, and what to do with the next message of it. Pure.

Messages are sent in *ranges*: the offsets of one batch of the source, or of several small ones. The
target acknowledges them in any order (several are in flight, a retried one comes late). The offset
stored for the source must never pass a range that is still open, since a mirror that is killed
starts there. So the offset to store is that of the *oldest open* range, or the one after the newest
when none is open.

A partition that was given up and assigned again, after a rebalance or a lost session, begins at the
stored offset. This process may have sent some of what follows already. What a message is then::

    offset     leader epoch                     it is
    >= next    any                              the next one: copy it
    <  next    later than the newest copied     another message: the log was truncated (KIP-320):
                                                copy it
    <  next    the same or earlier              the same one again: leave it out, if no other
                                                consumer has moved the stored offset meanwhile
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Mapping
from enum import Enum

Partition = tuple[str, int]
"""(topic, partition) of the source."""
Range = tuple[int, int]
"""Offsets, first to last, included."""
UNKNOWN = -1
_NOTHING_COPIED = -2
"""Lower than every leader epoch, the unknown one (-1) included."""


class CopyDecision(Enum):
    """What to do with a message."""

    COPY = "copy"
    SKIP = "skip"
    """The target has it, or it is in flight."""
    ASK = "ask"
    """It was read before. Read the stored offset, then call :meth:`CopyProgress.again`."""


class PartitionCopy:
    """The progress of one source partition, until it is given up. After that it only takes the
    acknowledgements that are still under way.

    ``copied`` collects the ranges that were acknowledged since this mirror started, also from
    before the partition was given up."""

    __slots__ = (
        "_copied",
        "_cuts",
        "_open",
        "_skip_below",
        "_unstored",
        "epoch",
        "next",
        "stored",
        "storing",
    )

    def __init__(self, stored: int = UNKNOWN, copied: list[Range] | None = None) -> None:
        self.next = stored
        """The offset after the newest message that was sent; before the first one, the stored
        offset (UNKNOWN: there is none)."""
        self.stored = stored
        self.storing = stored
        """The offset that was last to be stored; whether it was is not always known."""
        self.epoch = _NOTHING_COPIED
        """The leader epoch of the newest message."""
        self._skip_below = UNKNOWN
        self._cuts = 0
        self._open: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """First offset of a range -> (timestamp, number of truncations before it was sent)."""
        self._copied: list[Range] = [] if copied is None else copied
        self._unstored: deque[tuple[int, int, int]] = deque()
        """First offset, end and records of what was sent since the offset that is stored."""

    def is_duplicate(self, offset: int) -> bool:
        """Whether this process has sent the message already."""
        return offset < self._skip_below

    def skip_sent(self) -> None:
        """All that was sent is read again now: skip it."""
        self._skip_below = self.next

    @property
    def cut_count(self) -> int:
        """How often the source's log was truncated. An acknowledgement counts only if the number is
        the same as when the range was sent."""
        return self._cuts

    def sent(
        self, offset: int, epoch: int, timestamp: int, end: int | None = None, records: int = 1
    ) -> None:
        """The range [``offset``, ``end``), default: one message, was sent to the target.
        ``timestamp`` of its oldest message, in ms."""
        end = offset + 1 if end is None else end
        self._open[offset] = (timestamp, self._cuts)
        self._unstored.append((offset, end, records))
        self.passed(end, epoch)

    def passed(self, end: int, epoch: int) -> None:
        """There is nothing more to copy before ``end``."""
        self.next = end
        self.epoch = epoch

    def acknowledged(
        self, offset: int, cut_count: int, ranges: Iterable[Range] | None = None
    ) -> None:
        """The target has the range that begins at ``offset``. (If the source has truncated the log
        and has a new range there now, that one is still open.) ``ranges``: the offsets of its
        messages."""
        if self._open.get(offset, (0, UNKNOWN))[1] == cut_count:
            del self._open[offset]
        for first, last in ((offset, offset),) if ranges is None else ranges:
            if self._copied and self._copied[-1][1] == first - 1:
                self._copied[-1] = (self._copied[-1][0], last)
            else:
                self._copied.append((first, last))

    def cut_at(self, offset: int) -> None:
        """The log was truncated: from ``offset`` on it holds other messages now. Ranges before it
        stay open."""
        for at in [at for at in self._open if at >= offset]:
            del self._open[at]
        while self._unstored and self._unstored[-1][0] >= offset:
            self._unstored.pop()  # the source no longer has it, so it is not read again
        self._cuts += 1
        self._skip_below = UNKNOWN
        self.next = offset

    def cut_somewhere(self) -> None:
        """The source has truncated the log. Without leader epochs new messages cannot be told from
        old ones, so whatever is read again is copied again."""
        if self.epoch == UNKNOWN:
            self.epoch = _NOTHING_COPIED

    def was_stored(self, offset: int) -> None:
        """The offset is stored: the next start begins there."""
        self.stored = offset
        while self._unstored and self._unstored[0][1] <= offset:
            self._unstored.popleft()

    @property
    def unstored(self) -> int:
        """How many messages the target would get again if the mirror were killed now."""
        return sum(records for _, _, records in self._unstored)

    @property
    def to_store(self) -> int:
        """The offset that may be stored, UNKNOWN before there is one."""
        return next(iter(self._open), self.next)

    @property
    def open_count(self) -> int:
        """Ranges that were sent to the target and are not acknowledged yet."""
        return len(self._open)

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp among the open ranges."""
        return min((timestamp for timestamp, _ in self._open.values()), default=None)


class CopyProgress:
    """The partitions of one mirror."""

    def __init__(self) -> None:
        self._partitions: dict[Partition, PartitionCopy] = {}
        self._copied: dict[Partition, list[Range]] = {}
        self._topic_ids: dict[Partition, str] = {}

    def get(self, partition: Partition) -> PartitionCopy | None:
        """The partition, if it was begun."""
        return self._partitions.get(partition)

    def assigned(self, partition: Partition, stored: int, topic_id: str) -> None:
        """The partition is ours, perhaps again, with this stored offset (UNKNOWN: none), of a topic
        with this id ("": not known). Earlier progress counts, unless another consumer has moved the
        offset, or it is of a topic of that name that is gone."""
        copy, known = self._partitions.get(partition), self._topic_ids.get(partition, "")
        is_other = bool(known and topic_id) and known != topic_id
        if copy is None or is_other or stored not in (copy.stored, copy.storing):
            self.begin(partition, stored)
        self._topic_ids[partition] = topic_id or known

    def begin(self, partition: Partition, stored: int = UNKNOWN) -> PartitionCopy:
        """Begin at the stored offset; earlier progress does not count."""
        copied = self._copied.setdefault(partition, [])
        copy = self._partitions[partition] = PartitionCopy(stored, copied)
        return copy

    def restart(self, partition: Partition) -> int:
        """Begin again at the oldest open range, or where the partition has come to. Returns that
        offset. Acknowledgements that are still under way do not count."""
        old = self._partitions[partition]
        copy = self.begin(partition, old.stored)
        copy.storing, copy.next, copy.epoch = old.storing, old.to_store, old.epoch
        return copy.next

    def forget(self, partition: Partition) -> None:
        """Another consumer has the partition now, or its topic was created again."""
        self._partitions.pop(partition, None)

    def decide(self, partition: Partition, offset: int, epoch: int) -> CopyDecision:
        """What to do with a message of a partition that was begun; ``epoch`` is its leader epoch
        (-1: not known)."""
        copy = self._partitions[partition]
        if offset >= copy.next:
            return CopyDecision.COPY
        if epoch > copy.epoch:
            copy.cut_at(offset)
            return CopyDecision.COPY
        return CopyDecision.SKIP if copy.is_duplicate(offset) else CopyDecision.ASK

    def again(self, partition: Partition, stored: int) -> CopyDecision:
        """The decision after ASK: ``stored`` is the offset that is stored now (UNKNOWN: none)."""
        copy = self._partitions[partition]
        if stored in (copy.stored, copy.storing):
            copy.skip_sent()
            return CopyDecision.SKIP
        self.begin(partition)  # another consumer had it: our progress does not count
        return CopyDecision.COPY

    def to_store(self, owned: Container[Partition]) -> dict[Partition, int]:
        """Next offsets of ``owned`` partitions that moved since they were last stored. Call
        :meth:`stored` when they were stored."""
        found: dict[Partition, int] = {}
        for partition, copy in self._partitions.items():
            if partition in owned and copy.to_store not in (UNKNOWN, copy.stored):
                found[partition] = copy.storing = copy.to_store
        return found

    def passed(self, owned: Container[Partition] | None = None) -> dict[Partition, int]:
        """For each of the ``owned`` partitions the offset below which nothing is left to copy;
        default: for partitions without an open range."""
        return {
            partition: copy.to_store
            for partition, copy in self._partitions.items()
            if copy.to_store >= 0 and (not copy.open_count if owned is None else partition in owned)
        }

    def stored(self, offsets: Mapping[Partition, int]) -> None:
        """The offsets were stored."""
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._partitions[partition].was_stored(offset)

    def release(self) -> dict[Partition, int]:
        """Give up all partitions. Returns the offsets to store. Partitions are remembered, since
        they may be assigned again, and whether the offsets were stored is not known: but for those
        without an open range of which nothing was copied, or without leader epochs, by which
        another consumer's log could not be told from ours."""
        offsets = self.to_store(self._partitions)
        for partition, copy in list(self._partitions.items()):
            if not copy.open_count and copy.epoch <= UNKNOWN:
                self.forget(partition)
        return offsets

    def take_copied(self) -> dict[Partition, list[Range]]:
        """The source offsets acknowledged since the last call, ascending."""
        taken = {at: merged(ranges) for at, ranges in self._copied.items() if ranges}
        for ranges in self._copied.values():
            ranges.clear()
        return taken

    def unstored(self, owned: Container[Partition]) -> int:
        """How many messages of ``owned`` partitions the target would get again after a kill."""
        return sum(copy.unstored for at, copy in self._partitions.items() if at in owned)

    @property
    def open_count(self) -> int:
        """Ranges that were sent to the target and are not acknowledged yet."""
        return sum(copy.open_count for copy in self._partitions.values())

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) among the open ranges; None: none is open."""
        found = [copy.oldest for copy in self._partitions.values()]
        return min((each for each in found if each is not None), default=None)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The ranges ascending; those that overlap or are adjacent become one."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
