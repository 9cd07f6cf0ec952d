"""One cell while it is counted: its strips become runs. Pure.

In a partition the sequences of a cell nearly always rise. What rises makes *forward* runs, which
are in order and never overlap; whatever does not is kept as it came, and put in its place in the
end::

    strips      10-19   20-29   25-27   40-49   30-39
    forward     10-29                   40-49
    others                      25-27           30-39          →   run 10-49, 3 further copies

A sequence of a forward run is new when it comes, so further copies are always among the others,
whose offsets are known one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.hashing import BLOCK
from tallymark_spark_jobs.counting.digests import BITS
from tallymark_spark_jobs.counting.intervals import Range, levels
from tallymark_spark_jobs.counting.strips import Strip
from tallymark_spark_jobs.counting.tally import COPIES_NAMED


class CellRun(NamedTuple):
    """Sequences of one cell that follow one another without a gap, as
    :func:`tallymark_spark_jobs.reconcile.counts.cell_runs` has them; sequences are None for the one
    run of a cell without stamps. ``copies``: further copies, by their sequences. With the content
    check runs end where blocks do, too; ``content`` is the sum of the hashes modulo 2^64."""

    key: CellKey
    aborted: bool
    first_sequence: int | None
    last_sequence: int | None
    messages: int
    extra: int
    copies: tuple[Copy, ...]
    bytes: int
    malformed: int
    partition: int
    first_offset: int
    last_offset: int
    min_timestamp: int
    max_timestamp: int
    block: int | None = None
    content: int | None = None


class GrowingRun:
    """Records with the sequences ``first`` to ``last``; bounds of their offsets and timestamps."""

    __slots__ = (
        "bytes",
        "content",
        "first",
        "first_offset",
        "last",
        "last_offset",
        "max_timestamp",
        "min_timestamp",
        "records",
    )

    def __init__(self, strip: Strip) -> None:
        self.first = strip.sequence
        self.last = strip.sequence + strip.records - 1
        self.records = strip.records
        self.bytes = strip.bytes
        self.content = strip.content
        self.first_offset = strip.first_offset
        self.last_offset = strip.last_offset
        self.min_timestamp = strip.min_timestamp
        self.max_timestamp = strip.max_timestamp

    def put_in(self, more: Strip | GrowingRun) -> None:
        """Add the other's records; not their sequences."""
        self.records += more.records
        self.bytes += more.bytes
        self.content += more.content
        self.first_offset = min(self.first_offset, more.first_offset)
        self.last_offset = max(self.last_offset, more.last_offset)
        self.min_timestamp = min(self.min_timestamp, more.min_timestamp)
        self.max_timestamp = max(self.max_timestamp, more.max_timestamp)

    def copied(self) -> GrowingRun:
        """Another one of the same."""
        other = GrowingRun.__new__(GrowingRun)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other


class GrowingCell:
    """All that was counted of one cell so far. ``greatest``: the greatest sequence, -1: none."""

    __slots__ = ("_contents", "_forward", "_others", "greatest", "malformed")

    def __init__(self, contents: bool) -> None:
        self._contents: Final = contents
        self._forward: list[GrowingRun] = []
        self._others: list[GrowingRun] = []
        self.greatest = -1
        self.malformed = 0

    def __len__(self) -> int:
        """How many runs are kept."""
        return len(self._forward) + len(self._others)

    def add(self, strip: Strip) -> int:
        """Count a strip; how many more runs are kept now. One that begins at ``greatest`` or before
        has to be straight."""
        first, last = strip.sequence, strip.sequence + strip.records - 1
        if first < 0:
            return self._add_unstamped(strip)
        if first > self.greatest:
            runs = self._forward
            goes_on = first == self.greatest + 1
            self.greatest = last
        else:
            runs = self._others
            goes_on = bool(
                runs
                and first == runs[-1].last + 1
                and strip.first_offset == runs[-1].last_offset + 1
            )
            self.greatest = max(self.greatest, last)
        if goes_on and runs and runs[-1].last == first - 1 and not self._ends_before(first):
            runs[-1].put_in(strip)
            runs[-1].last = last
            return 0
        runs.append(GrowingRun(strip))
        return 1

    def ranges(self) -> list[Range]:
        """The sequences of every copy: ranges that may overlap."""
        return [(run.first, run.last) for run in (*self._forward, *self._others) if run.first >= 0]

    def runs(self, key: CellKey, aborted: bool, partition: int) -> list[CellRun]:
        """The runs in the order of their sequences; ``partition`` holds the records."""
        if not self._others:
            return [self._run(run, key, aborted, partition) for run in self._forward]
        copies = self._copies(partition)
        sequences = [copy.sequence for copy in copies]
        found: list[CellRun] = []
        for run in self._islands():
            some = slice(bisect_left(sequences, run.first), bisect_right(sequences, run.last))
            mine = tuple(copies[some])
            found.append(self._run(run, key, aborted, partition)._replace(copies=mine))
        return found

    def _add_unstamped(self, strip: Strip) -> int:
        if self._forward:
            self._forward[0].put_in(strip)
            return 0
        self._forward.append(GrowingRun(strip))
        return 1

    def _ends_before(self, sequence: int) -> bool:
        return self._contents and sequence % BLOCK == 0

    def _run(self, run: GrowingRun, key: CellKey, aborted: bool, partition: int) -> CellRun:
        stamped = run.first >= 0
        hashed = self._contents and stamped
        return CellRun(
            key,
            aborted,
            run.first if stamped else None,
            run.last if stamped else None,
            run.records,
            run.records - (run.last - run.first + 1) if stamped else 0,
            (),
            run.bytes,
            self.malformed,
            partition,
            run.first_offset,
            run.last_offset,
            run.min_timestamp,
            run.max_timestamp,
            run.first // BLOCK if hashed else None,
            run.content & BITS if hashed else None,
        )

    def _islands(self) -> list[GrowingRun]:
        """The runs of all strips, put together where they overlap or continue each other."""
        found: list[GrowingRun] = []
        for run in sorted([*self._forward, *self._others], key=lambda one: one.first):
            island = found[-1] if found else None
            if (
                island is None
                or run.first > island.last + 1
                or (run.first == island.last + 1 and self._ends_before(run.first))
            ):
                found.append(run.copied())
            else:
                island.put_in(run)
                island.last = max(island.last, run.last)
        return found

    def _copies(self, partition: int) -> list[Copy]:
        """The first :data:`~tallymark_spark_jobs.counting.tally.COPIES_NAMED` further copies, in
        the order of their sequences. The first record of a sequence that was read is none."""
        forward = [(run.first, run.last) for run in self._forward]
        others = self._others
        begin = sorted(range(len(others)), key=lambda number: others[number].first)
        found: list[Copy] = []
        active: list[int] = []
        at = 0
        for first, last in _repeated([*forward, *((one.first, one.last) for one in others)]):
            for sequence in range(first, last + 1):
                while at < len(begin) and others[begin[at]].first <= sequence:
                    insort(active, begin[at])
                    at += 1
                active = [number for number in active if others[number].last >= sequence]
                known = _contains(forward, sequence)
                for number in active if known else active[1:]:
                    offset = others[number].first_offset + sequence - others[number].first
                    found.append(Copy(partition, offset, sequence))
                if len(found) >= COPIES_NAMED:
                    break
            if len(found) >= COPIES_NAMED:
                break
        found.sort(key=lambda copy: (copy.sequence, copy.offset))
        return found[:COPIES_NAMED]


def _repeated(ranges: Sequence[Range]) -> Sequence[Range]:
    """The numbers that are in two ranges or more."""
    found = levels(ranges)
    return found[1] if len(found) > 1 else ()


def _contains(ranges: Sequence[Range], number: int) -> bool:
    """Whether a number is in one of the ranges, which are sorted and do not overlap."""
    at = bisect_right(ranges, number, key=lambda pair: pair[0]) - 1
    return at >= 0 and number <= ranges[at][1]
