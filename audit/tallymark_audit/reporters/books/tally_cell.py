"""One cell of a reporter's books: what was accepted, and what became of it.

It keeps sequences as ranges. A cell that would take more of them than may be kept is *summarized*:
from then on it counts, and hashes what is acknowledged
(:class:`tallymark_audit.model.cells.Summary`), so it stays small and can still be compared, but no
longer names the missing records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tallymark_audit.events.events import CellReport
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, Summary
from tallymark_audit.model.hashing import MASK, fingerprint
from tallymark_audit.model.ranges import EMPTY, GrowingRanges, RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS, GrowingLevels
from tallymark_audit.reporters.books.runs import Run, TallyKey

MAX_BLOCKS: Final = 16_384
"""Blocks of the content check that a cell keeps, of 1,024 records each; what lies in further ones
is not checked. It bounds the cell's report to some 300 kB."""


class Outcome(IntEnum):
    """How an accepted record ended."""

    ACKNOWLEDGED = 1
    FAILED = 2
    IN_DOUBT = 3
    ABORTED = 4
    """Written in a transaction that was aborted: no consumer is to see it."""
    FILTERED = 5
    """Of a consumer: seen, and left out on purpose."""


@dataclass(slots=True)
class TallyCell:
    """``carrier`` is the event that first reported its present state, -1 while none has;
    ``touched`` (ms) is when it last changed. ``count``, ``bytes``, ``skewed`` and the timestamps
    (ms) are of what was accepted. With a ``summary`` it has no ranges. ``again``: all sequences of
    the ``duplicates``, or None where there are too many to name."""

    part: int
    revision: int = 0
    count: int = 0
    bytes: int = 0
    accepted: GrowingRanges = field(default_factory=GrowingRanges)
    settled: dict[Outcome, GrowingRanges] = field(default_factory=dict[Outcome, GrowingRanges])
    summary: Summary | None = None
    blocks: dict[int, Block] = field(default_factory=dict[int, Block])
    latency: sketches.Sketch = field(default_factory=dict[int, int])
    min_timestamp: int = -1
    max_timestamp: int = -1
    skewed: int = 0
    again: GrowingLevels | None = field(default_factory=GrowingLevels)
    duplicates: int = 0
    unstamped: int = 0
    malformed: int = 0
    carrier: int = -1
    touched: int = 0

    def accept(self, run: Run, size: int, skewed: int, most: int) -> None:
        """The records of a run; ``size`` in bytes, ``most`` ranges may be kept."""
        first, last = run.first, run.last
        self.count += last - first + 1
        self.bytes += size
        self.skewed += skewed
        low, high = run.min_timestamp, run.max_timestamp
        if self.min_timestamp < 0 or low < self.min_timestamp:
            self.min_timestamp = low
        if high > self.max_timestamp:
            self.max_timestamp = high
        if self.summary is not None:
            accepted = self.summary.accepted + last - first + 1
            self.summary = self.summary._replace(accepted=accepted)
        elif self.accepted.add(first, last) and self.weight > most:
            self.lighten(most)

    def settle(self, outcome: Outcome, first: int, last: int, most: int) -> None:
        """These sequences ended with this outcome; each is settled once."""
        if self.summary is not None:
            self.summary = _counted(self.summary, outcome, RangeSet.single(first, last))
            return
        ranges = self.settled.get(outcome)
        if ranges is None:
            ranges = self.settled[outcome] = GrowingRanges()
        if ranges.add(first, last) and self.weight > most:
            self.lighten(most)

    def repeat(self, ranges: RangeSet, most: int) -> None:
        """Of a consumer: these were processed once more."""
        self.duplicates += ranges.size
        if self.again is not None:
            self.again.add(ranges)
            if self.again.depth > MAX_LEVELS or self.weight > most:
                self.again = None

    def settle_pending(self, outcome: Outcome) -> bool:
        """What is accepted and not settled ended with this outcome; returns whether there was any.
        A cell that only counts does not know which these are, so their acknowledgement is in
        doubt."""
        if self.summary is not None:
            pending = _open(self.summary)
            doubtful = outcome in (Outcome.IN_DOUBT, Outcome.ACKNOWLEDGED)
            failed, in_doubt = (0, pending) if doubtful else (pending, 0)
            self.summary = self.summary._replace(
                failed=self.summary.failed + failed, in_doubt=self.summary.in_doubt + in_doubt
            )
            return pending > 0
        left = self.pending
        for first, last in left:
            self.settled.setdefault(outcome, GrowingRanges()).add(first, last)
        return bool(left)

    def fold(self, blocks: Iterable[Block]) -> None:
        """Add the contents of acknowledged records."""
        mine = self.blocks
        for block in blocks:
            known = mine.get(block.block)
            if known is not None:
                records, hashes = known.records + block.records, known.hash + block.hash & MASK
                mine[block.block] = Block(block.block, records, hashes)
            elif len(mine) < MAX_BLOCKS:
                mine[block.block] = block

    def lighten(self, most: int) -> None:
        """There are more than ``most`` ranges. The ranges of duplicates are dropped first: missing
        records are worth more."""
        self.again = None
        if self.weight > most:
            self.summarize()

    def summarize(self) -> None:
        """Replace the ranges by their counts and hash."""
        summary = Summary(self.accepted.frozen().size, 0, 0, 0, 0)
        for outcome, ranges in self.settled.items():
            summary = _counted(summary, outcome, ranges.frozen())
        self.summary = summary
        self.accepted = GrowingRanges()
        self.settled = {}
        self.again = None

    def outcome(self, outcome: Outcome) -> RangeSet:
        """The sequences that ended so."""
        ranges = self.settled.get(outcome)
        return ranges.frozen() if ranges is not None else EMPTY

    @property
    def pending(self) -> RangeSet:
        """Accepted, and not yet settled; of a summarized cell nothing."""
        pending = self.accepted.frozen()
        for settled in self.settled.values():
            pending = pending - settled.frozen()
        return pending

    @property
    def at_rest(self) -> bool:
        """Whether everything accepted is settled."""
        return not _open(self.summary) if self.summary is not None else not self.pending

    @property
    def weight(self) -> int:
        """How many ranges its report holds."""
        again = len(self.again) if self.again is not None else 0
        return len(self.accepted) + sum(map(len, self.settled.values())) + again

    def report(self, key: TallyKey) -> CellReport:
        """The cell as an event holds it."""
        return CellReport(
            topic=key.topic,
            partition=key.partition,
            window_start=key.window,
            server=key.server,
            instance=key.instance,
            part=self.part,
            revision=self.revision,
            count=self.count,
            bytes=self.bytes,
            accepted=self.accepted.frozen(),
            acknowledged=self.outcome(Outcome.ACKNOWLEDGED),
            failed=self.outcome(Outcome.FAILED),
            in_doubt=self.outcome(Outcome.IN_DOUBT),
            aborted=self.outcome(Outcome.ABORTED),
            filtered=self.outcome(Outcome.FILTERED),
            summary=self.summary,
            blocks=tuple(self.blocks[number] for number in sorted(self.blocks)),
            latency=tuple(sketches.to_list(self.latency)),
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            skewed=self.skewed,
            again=self.again.frozen() if self.again else (),
            duplicates=self.duplicates,
            unstamped=self.unstamped,
            malformed=self.malformed,
        )


def _counted(summary: Summary, outcome: Outcome, ranges: RangeSet) -> Summary:
    if outcome is Outcome.ACKNOWLEDGED:
        return summary._replace(
            acknowledged=summary.acknowledged + ranges.size,
            fingerprint=summary.fingerprint + fingerprint(ranges) & MASK,
        )
    if outcome is Outcome.IN_DOUBT:
        return summary._replace(in_doubt=summary.in_doubt + ranges.size)
    # Aborted and filtered ones too: all that is not expected to be seen.
    return summary._replace(failed=summary.failed + ranges.size)


def _open(summary: Summary) -> int:
    return max(0, summary.accepted - summary.acknowledged - summary.failed - summary.in_doubt)
