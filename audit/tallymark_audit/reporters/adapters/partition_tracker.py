"""The records of one partition on their way through a producer of another library. No I/O, no
clock.

::

    produce ──► take a number ──► hand over ──► delivery report
                    │ times                        │ done, failed
                    ▼                              ▼
                 drain: ─────► a batch of what was handed over, and what became of earlier ones

Each record costs a few operations only: the next stamp and report (:mod:`.record_path`), and a
number that its report appends to a list. :meth:`PartitionTracker.drain` does the rest now and then,
for all records at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from tallymark.client.producing.batches.tally import BatchTally
from tallymark_audit.model.ranges import Range, RangeSet
from tallymark_audit.reporters.adapters.record_path import (
    DeliveryReport,
    Header,
    StampOrigin,
    headers_and_reports,
)
from tallymark_audit.reporters.books.tally_cell import Outcome

T = TypeVar("T")


class BatchOutcome(NamedTuple):
    """How a batch ended; None: it is not known yet."""

    batch: BatchTally
    outcome: Outcome | None


@dataclass(slots=True)
class Drained:
    """``begun``: what was handed over since the last time. ``split``: each earlier batch with
    records that ended since, and its parts."""

    begun: BatchTally | None = None
    split: list[tuple[BatchTally, list[BatchOutcome]]] = field(
        default_factory=list[tuple[BatchTally, list[BatchOutcome]]]
    )


class PartitionTracker:
    """One partition. Hold the owner's lock to hand a record over and to drain; reports come from
    any thread without it.

    ``items`` are the header and report of the next sequence, and those of all that follow;
    ``times`` (ms, one a record, the first of sequence ``first``) and ``size`` (bytes of keys and
    values) are of what was handed over since the last drain. ``done`` and ``failed`` are what was
    reported since.
    """

    __slots__ = (
        "_open",
        "done",
        "failed",
        "first",
        "items",
        "partition",
        "size",
        "times",
        "topic",
        "who",
    )

    def __init__(self, topic: str, partition: int, who: StampOrigin) -> None:
        self.topic = topic
        self.partition = partition
        self.who = who
        self.first = 0
        self.times: list[int] = []
        self.size = 0
        self.done: list[int] = []
        self.failed: list[tuple[int, Outcome]] = []
        self._open: list[BatchTally] = []
        self.items: Iterator[tuple[Header, DeliveryReport]] = iter(())

    @property
    def next(self) -> int:
        """The next sequence."""
        return self.first + len(self.times)

    def begin(self, deliver: Callable[..., None]) -> None:
        """The reports of the numbers from ``next`` on call ``deliver(number, error, message)``."""
        self.items = headers_and_reports(self.who, self.partition, self.next, deliver)

    @property
    def pending(self) -> bool:
        """Whether there are records that have not ended."""
        return bool(self._open or self.times)

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) among what is pending."""
        lows = [min(batch.timestamps) for batch in self._open]
        if self.times:
            lows.append(min(self.times))
        return min(lows, default=None)

    def drain(self) -> Drained:
        """What has happened since the last time."""
        drained = Drained()
        if self.times:
            drained.begun = self._begun()
            self._open.append(drained.begun)
        fates = self._reported()
        if fates:
            drained.split = self._settle(fates)
        return drained

    def settle_open(self, outcome: Outcome) -> Drained:
        """Drain, and end all that is still pending with this outcome."""
        drained = self.drain()
        fate = [(batch, [BatchOutcome(batch, outcome)]) for batch in self._open]
        self._open = []
        drained.split += fate
        return drained

    def _begun(self) -> BatchTally:
        times, size, first, who = self.times, self.size, self.first, self.who
        self.first, self.times, self.size = self.next, [], 0
        return BatchTally(
            self.topic,
            self.partition,
            who.instance,
            who.server,
            first,
            times,
            size,
            who.backfill,
        )

    def _reported(self) -> list[tuple[RangeSet, Outcome]]:
        """The ranges of what was reported. Other threads append meanwhile."""
        done = _take(self.done)
        failed = _take(self.failed)
        fates = [(runs(done), Outcome.ACKNOWLEDGED)] if done else []
        for outcome in {outcome for _, outcome in failed}:
            numbers = [number for number, each in failed if each is outcome]
            fates.append((RangeSet.of(numbers), outcome))
        return fates

    def _settle(
        self, fates: Sequence[tuple[RangeSet, Outcome]]
    ) -> list[tuple[BatchTally, list[BatchOutcome]]]:
        split: list[tuple[BatchTally, list[BatchOutcome]]] = []
        still: list[BatchTally] = []
        for batch in self._open:
            parts = cut(batch, fates)
            if any(part.outcome is not None for part in parts):
                split.append((batch, parts))
                still += [part.batch for part in parts if part.outcome is None]
            else:
                still.append(batch)
        self._open = still
        return split


def runs(numbers: list[int]) -> RangeSet:
    """The distinct numbers as ranges, mostly one."""
    low, high = min(numbers), max(numbers)
    if high - low + 1 == len(numbers):
        return RangeSet.single(low, high)
    return RangeSet.of(numbers)


def cut(batch: BatchTally, fates: Sequence[tuple[RangeSet, Outcome]]) -> list[BatchOutcome]:
    """A batch in parts, in order; the records of each part ended alike."""
    whole = RangeSet.single(batch.first_sequence, batch.last_sequence)
    rest = whole
    found: list[tuple[Range, Outcome | None]] = []
    for ranges, outcome in fates:
        common = whole & ranges
        found += [(each, outcome) for each in common]
        rest -= common
    found += [(each, None) for each in rest]
    if len(found) == 1:
        return [BatchOutcome(batch, found[0][1])]
    return [
        BatchOutcome(part_of(batch, *each), outcome) for each, outcome in sorted(found, key=_first)
    ]


def part_of(batch: BatchTally, first: int, last: int) -> BatchTally:
    """The records ``first..last`` of a batch; its size in proportion."""
    start, stop = first - batch.first_sequence, last - batch.first_sequence + 1
    return BatchTally(
        batch.topic,
        batch.partition,
        batch.instance,
        batch.server,
        first,
        batch.timestamps[start:stop],
        batch.sizes * (stop - start) // batch.count,
        batch.backfill,
    )


def _first(found: tuple[Range, Outcome | None]) -> int:
    return found[0][0]


def _take(reported: list[T]) -> list[T]:
    """Take out what is in a list to which other threads append."""
    number = len(reported)
    taken = reported[:number]
    del reported[:number]
    return taken
