"""The runs of one fetch: by the compiled loops when they are ready, else by the pure path.

Both read the same batches and find the same holes. The loops read the whole fetch, decompressed
piece by piece; a batch that they cannot read is read by the pure path, which says why::

    fetched   │ good │ good │ bad  │ good │ good │
    read by   │ loops       │ pure │ loops       │
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compiled import kernel as records
from tallymark.protocol.records.compiled.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BREAK,
    COUNT,
    END,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    OFFSET,
    ROW,
    ROWS,
    START,
    WHOLE,
)
from tallymark.protocol.records.compiled.unpack import unpack_batches
from tallymark.protocol.schema import Buffer
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.counting import readable
from tallymark_audit.collector.counting.readable import Read, Reading, in_order, read_part
from tallymark_audit.model.compiled_runs.cutter import ReadBatches, RunCutter, has_room, ready
from tallymark_audit.model.log_reader import FetchedLike
from tallymark_audit.model.record_runs import Rules, SeenRun, runs_of_columns

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

FEW_BATCHES: Final = 3
FEW_BYTES: Final = 16_384
"""Fewer batches than that of fewer bytes are read by the pure path."""
_UNPACKED: Final = 4 << 20
"""So many bytes are decompressed before they are read, and one batch beyond that."""
_CONTROL: Final = 0x20
_NOT_HERE: Final = -1
"""A BREAK of ours: the pure path has to read the batch, although it is whole."""


@dataclass(slots=True)
class FetchRuns:
    """``seen``: the runs of one fetch; ``dropped``: those of aborted transactions."""

    seen: list[SeenRun] = field(default_factory=list[SeenRun])
    dropped: list[SeenRun] = field(default_factory=list[SeenRun])

    def of(self, aborted: bool) -> list[SeenRun]:
        """One of the two."""
        return self.dropped if aborted else self.seen


class RunReader:
    """Reads the runs of fetches. Not thread-safe. The tables of the loops are made when they are
    used for the first time, and used again."""

    def __init__(self) -> None:
        self._cutter: RunCutter | None = None
        self._headers: IntArray | None = None

    def read(
        self, fetched: FetchedLike, start: int, place: TopicPartition, rules: Rules
    ) -> tuple[Read, FetchRuns]:
        """The runs of the records at ``start`` or behind, as far as they can be read at once."""
        if ready() and has_room(rules) and not _is_little(fetched):
            found = self._find(fetched)
            if found is not None:
                if self._cutter is None:
                    self._cutter = RunCutter()
                reader = _FetchReader(self._cutter, fetched, start, place, rules)
                return reader.read(*found), reader.found
        return _read_purely(fetched, start, place, rules)

    def _find(self, fetched: FetchedLike) -> tuple[Buffer, IntArray] | None:
        """The bytes of all batches in the order of the log, and their headers; None: the loops
        cannot read one of these."""
        batches = in_order(fetched)
        if self._headers is None or len(self._headers) < len(batches):
            self._headers = records.batch_table(max(256, len(batches)))
        headers = self._headers[: len(batches)]
        data = getattr(fetched, "data", None)
        if data is None:
            data = b"".join([batch.data for batch in batches])
        if records.find_batches(data, 0, headers) < len(batches):
            return None
        if fetched.left_out and (headers[1:, BASE_OFFSET] <= headers[:-1, BASE_OFFSET]).any():
            return None
        return data, headers


def _is_little(fetched: FetchedLike) -> bool:
    """Whether the pure path is the faster one: a fetch costs the loops 50 µs, whatever is in it."""
    batches = fetched.batches
    return len(batches) < FEW_BATCHES and sum([len(b.data) for b in batches]) < FEW_BYTES


def _read_purely(
    fetched: FetchedLike, start: int, place: TopicPartition, rules: Rules
) -> tuple[Read, FetchRuns]:
    found = FetchRuns()

    def take(_: Batch, columns: RecordColumns, aborted: bool) -> None:
        found.of(aborted).extend(runs_of_columns(columns, *place, rules))

    return read_part(fetched, start, take), found


class _FetchReader:
    """Reads one fetch by the loops."""

    def __init__(
        self,
        cutter: RunCutter,
        fetched: FetchedLike,
        start: int,
        place: TopicPartition,
        rules: Rules,
    ) -> None:
        self.found = FetchRuns()
        self._cutter = cutter
        self._fetched = fetched
        self._start = start
        self._place = place
        self._rules = rules
        self._batches = in_order(fetched)
        self._dropped = {batch.header.base_offset for batch in fetched.left_out}
        self._reading = Reading(start)

    def read(self, data: Buffer, headers: IntArray) -> Read:
        """How far the fetch was read."""
        fetched = self._fetched
        numbers = (headers[:, ATTRIBUTES] & _CONTROL == 0).nonzero()[0]
        headers = headers if len(numbers) == len(headers) else headers[numbers]
        # What needs larger tables is not decompressed here first: that would take the memory twice.
        room = self._cutter.columns.shape[1]
        large = (headers[:, COUNT] > room).nonzero()[0].tolist()
        at = 0
        for stop in (*large, len(headers)):
            while at < stop:
                some = headers[at:stop]
                scratch, unpacked = unpack_batches(data, some, _UNPACKED)
                for first, end in self._pieces(data, scratch, some[:unpacked]):
                    read = ReadBatches(data, scratch, some, first, end)
                    last = self._take(read, numbers[at:].tolist())
                    if last >= 0:
                        return self._until(some[last])
                at += unpacked
            if stop < len(headers):
                self._take_broken(self._batches[numbers[stop]])
                if self._is_full(numbers[stop]):
                    return self._until(headers[stop])
                at = stop + 1
        return Read(fetched.next_offset, fetched.last_epoch, self._reading.holes)

    def _until(self, last: IntArray) -> Read:
        """The fetch was read up to the end of that batch."""
        return Read(int(last[LAST_OFFSET]) + 1, int(last[LEADER_EPOCH]), self._reading.holes)

    def _pieces(self, data: Buffer, scratch: Buffer, some: IntArray) -> Iterator[tuple[int, int]]:
        """From which to which batch the records are in the columns now."""
        first = 0
        while first < len(some):
            done = records.read_batches(data, scratch, some, first, self._cutter.columns)
            self._leave_out(some[first:done])
            yield first, done
            first = done

    def _leave_out(self, some: IntArray) -> None:
        """Leave out the records before the start: a fetch may begin within a batch."""
        early = (some[:, BASE_OFFSET] < self._start) & (some[:, ROWS] > 0)
        for number in early.nonzero()[0].tolist():
            batch = some[number]
            row = int(batch[ROW])
            before = self._cutter.columns[OFFSET, row : row + int(batch[ROWS])] < self._start
            count = int(before.sum())
            if before[:count].all():
                batch[ROW] += count
                batch[ROWS] -= count
            else:  # no broker writes such a batch
                batch[BREAK], batch[ROWS] = _NOT_HERE, 0

    def _take(self, read: ReadBatches, numbers: Sequence[int]) -> int:
        """Take the runs of the batches that are in the columns, and read the others. The batch with
        which the fetch reached its bound, if others follow it; -1: go on."""
        at = read.first
        broken = (read.batches[at : read.end, BREAK] != WHOLE).nonzero()[0]
        stops: list[int] = (broken + at).tolist()
        for stop in (*stops, read.end):
            if stop > at:
                last = self._take_whole(replace(read, first=at, end=stop), numbers)
                if last >= 0:
                    return last
            if stop < read.end:
                self._take_broken(self._batches[numbers[stop]])
                if self._is_full(numbers[stop]):
                    return stop
            at = stop + 1
        return -1

    def _take_whole(self, read: ReadBatches, numbers: Sequence[int]) -> int:
        some = read.batches[read.first : read.end]
        sizes = (some[:, END] - some[:, START]).cumsum()
        reached = int(sizes.searchsorted(readable.AT_ONCE - self._reading.size))
        some = some[: reached + 1]
        read = replace(read, end=read.first + len(some))
        times = some[0 if self._reading.holes else -1 :, MAX_TIMESTAMP].tolist()
        self._reading.passed(times, int(sizes[len(some) - 1]))
        where = (*self._place, self._rules)
        runs, of_batches = self._cutter.runs(read, *where, join=not self._dropped)
        if not self._dropped:
            self.found.seen += runs
        else:
            for run, number in zip(runs, of_batches, strict=True):
                self.found.of(int(read.batches[number, BASE_OFFSET]) in self._dropped).append(run)
        last = read.end - 1
        return last if self._is_full(numbers[last]) else -1

    def _take_broken(self, batch: Batch) -> None:
        def take(_: Batch, columns: RecordColumns, aborted: bool) -> None:
            self.found.of(aborted).extend(runs_of_columns(columns, *self._place, self._rules))

        self._reading.take(batch, batch.header.base_offset in self._dropped, take)

    def _is_full(self, number: int) -> bool:
        return self._reading.size >= readable.AT_ONCE and number + 1 < len(self._batches)
