"""How far a source partition is safely copied, and what to do with the next message of it. Pure.

Messages are handed over in *stretches*: the offsets of one batch of the source, or of several
small ones. They are acknowledged by the target in any order (several are in flight, a retried one
comes late), but the offset stored for the source must never pass one that is still open: a mirror
that is killed starts again there. So the offset to store is that of the *oldest open* stretch, or
the one after the newest when none is open.

A partition that was given up and taken over again, after a rebalance or a lost session, begins at
the stored offset, and this run may have sent some of that already. What a message is then::

    offset     leader epoch                     it is
    >= next    any                              the next one: copy it
    <  next    later than the newest copied     another message: the log was cut (KIP-320): copy it
    <  next    the same or earlier              the same one again: if nobody else has moved the
                                                stored offset meanwhile, leave it out
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
"""Below every leader epoch, the unknown one (-1) too."""


class CopyDecision(Enum):
    """What to do with a message."""

    COPY = "copy"
    SKIP = "skip"
    """The target has it, or is about to."""
    ASK = "ask"
    """It was handed out before. Look at the stored offset, then :meth:`CopyProgress.again`."""


class PartitionCopy:
    """One source partition as this run has copied it, until it is let go. Then it stays valid for
    the acknowledgements under way, which count for nothing else.

    ``copied`` collects the ranges that were acknowledged: those of the partition's life in this
    mirror, whatever happened to it in between."""

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
        """After the newest message handed to the target; before the first one, the stored offset
        (UNKNOWN: there is none)."""
        self.stored = stored
        self.storing = stored
        """What was last tried to be stored; whether it was, is not always known."""
        self.epoch = _NOTHING_COPIED
        """The leader epoch of the newest message."""
        self._skip_below = UNKNOWN
        self._cuts = 0
        self._open: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """First offset of a stretch -> (timestamp, how many cuts there had been)."""
        self._copied: list[Range] = [] if copied is None else copied
        self._unstored: deque[tuple[int, int, int]] = deque()
        """First offset, end and records of what was sent since the offset that is stored."""

    def is_duplicate(self, offset: int) -> bool:
        """Whether the message was found to be one that this run has sent."""
        return offset < self._skip_below

    def skip_sent(self) -> None:
        """All that was sent is handed out once more."""
        self._skip_below = self.next

    @property
    def cut_count(self) -> int:
        """What the acknowledgement of a message that is sent now has to show."""
        return self._cuts

    def sent(
        self, offset: int, epoch: int, timestamp: int, end: int | None = None, records: int = 1
    ) -> None:
        """The stretch [``offset``, ``end``), default: one message, was handed to the target.
        ``timestamp`` of its oldest message, in ms."""
        end = offset + 1 if end is None else end
        self._open[offset] = (timestamp, self._cuts)
        self._unstored.append((offset, end, records))
        self.passed(end, epoch)

    def passed(self, end: int, epoch: int) -> None:
        """Before ``end`` there is nothing more to copy."""
        self.next = end
        self.epoch = epoch

    def acknowledged(
        self, offset: int, cut_count: int, ranges: Iterable[Range] | None = None
    ) -> None:
        """The target has the stretch that begins at ``offset``. (If another one has taken its place
        at the source by now, that one is still open.) ``ranges``: the offsets of its messages."""
        if self._open.get(offset, (0, UNKNOWN))[1] == cut_count:
            del self._open[offset]
        for first, last in ((offset, offset),) if ranges is None else ranges:
            if self._copied and self._copied[-1][1] == first - 1:
                self._copied[-1] = (self._copied[-1][0], last)
            else:
                self._copied.append((first, last))

    def cut_at(self, offset: int) -> None:
        """From ``offset`` on the log holds other messages now; what is open before it stays so."""
        for at in [at for at in self._open if at >= offset]:
            del self._open[at]
        while self._unstored and self._unstored[-1][0] >= offset:
            self._unstored.pop()  # the source has it no more, so it cannot come again
        self._cuts += 1
        self._skip_below = UNKNOWN
        self.next = offset

    def cut_somewhere(self) -> None:
        """The source has cut the log. Where it tells no epochs by which to know its new messages,
        whatever comes again has to be copied again."""
        if self.epoch == UNKNOWN:
            self.epoch = _NOTHING_COPIED

    def was_stored(self, offset: int) -> None:
        """The next start begins there."""
        self.stored = offset
        while self._unstored and self._unstored[0][1] <= offset:
            self._unstored.popleft()

    @property
    def unstored(self) -> int:
        """How many messages the target would get again if the mirror were killed now."""
        return sum(records for _, _, records in self._unstored)

    @property
    def to_store(self) -> int:
        """The next offset that may be stored, UNKNOWN before there is one."""
        return next(iter(self._open), self.next)

    @property
    def open_count(self) -> int:
        """Stretches handed to the target and not acknowledged yet."""
        return len(self._open)

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp among the open stretches."""
        return min((timestamp for timestamp, _ in self._open.values()), default=None)


class CopyProgress:
    """The partitions of one mirror."""

    def __init__(self) -> None:
        self._partitions: dict[Partition, PartitionCopy] = {}
        self._copied: dict[Partition, list[Range]] = {}

    def get(self, partition: Partition) -> PartitionCopy | None:
        """The partition, if it was begun."""
        return self._partitions.get(partition)

    def begin(self, partition: Partition, stored: int = UNKNOWN) -> PartitionCopy:
        """Begin without a past, at the stored offset."""
        copied = self._copied.setdefault(partition, [])
        copy = self._partitions[partition] = PartitionCopy(stored, copied)
        return copy

    def forget(self, partition: Partition) -> None:
        """Somebody else consumes it now, or its topic was made again."""
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
        """The answer to ASK: ``stored`` is the offset that is stored now (UNKNOWN: none)."""
        copy = self._partitions[partition]
        if stored in (copy.stored, copy.storing):
            copy.skip_sent()
            return CopyDecision.SKIP
        self.begin(partition)  # somebody else had it: what we remember is of no use
        return CopyDecision.COPY

    def to_store(self, owned: Container[Partition]) -> dict[Partition, int]:
        """Next offsets of ``owned`` partitions that moved since they were last stored. They are
        about to be; :meth:`stored` is told if they were."""
        found: dict[Partition, int] = {}
        for partition, copy in self._partitions.items():
            if partition in owned and copy.to_store not in (UNKNOWN, copy.stored):
                found[partition] = copy.storing = copy.to_store
        return found

    def passed(self, owned: Container[Partition] | None = None) -> dict[Partition, int]:
        """The offsets below which nothing is left to do, of ``owned`` partitions; default: of those
        of which nothing is open."""
        return {
            partition: copy.to_store
            for partition, copy in self._partitions.items()
            if copy.to_store >= 0 and (not copy.open_count if owned is None else partition in owned)
        }

    def stored(self, offsets: Mapping[Partition, int]) -> None:
        """The offsets are in the registry now."""
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._partitions[partition].was_stored(offset)

    def release(self) -> dict[Partition, int]:
        """All partitions are given up: the offsets to store. Those with open messages are
        remembered, in case they come back."""
        offsets = self.to_store(self._partitions)
        for partition, copy in list(self._partitions.items()):
            if not copy.open_count:
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
        """Stretches handed to the target and not acknowledged yet."""
        return sum(copy.open_count for copy in self._partitions.values())

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) among the open stretches; None: none is open."""
        found = [copy.oldest for copy in self._partitions.values()]
        return min((each for each in found if each is not None), default=None)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The ranges ascending, those that adjoin or overlap as one."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
