"""The records of many batches at once, as the compiled loops write them into tables of integers.

For code that counts or copies without an object for each record. A table is drawn in
:mod:`tallymark.protocol.records.compiled.layout`; without numba (extra ``fast``) there are none,
and all is read as pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.compiled import kernel
from tallymark.protocol.records.compiled.layout import (
    BASE_OFFSET,
    BREAK,
    COUNT,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    OFFSET,
    ROW,
    ROWS,
    TIMESTAMP,
    WHOLE,
)
from tallymark.protocol.records.compiled.loose_columns import use_compiled_loops
from tallymark.protocol.records.compiled.unpack import unpack_batches
from tallymark.protocol.schema import Buffer

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

ROWS_AT_ONCE: Final = 65_536
"""Records of a table, 88 bytes each."""
WORTH: Final = 400_000
"""So many offsets are worth loading the loops: that takes 0.4 s of processor and 140 MB, and saves
one to four microseconds a record."""
_UNPACKED: Final = 4 << 20
"""So many bytes are decompressed before they are read, and one batch beyond that."""
_FEW_BATCHES: Final = 3
_FEW_BYTES: Final = 16_384
"""Fewer batches than that of fewer bytes are read faster by the pure path."""
_NOT_HERE: Final = -1
"""A BREAK of ours: the pure path has to read the batch, although it is whole."""

BatchRead = tuple[Batch, bool]
"""A batch, and whether its transaction was aborted."""

_asked = 0


@dataclass(frozen=True, slots=True)
class Table:
    """The records of the ``batches``, in the order of the log and cut to the span: of batch ``n``
    those in ``columns[:, ROW : ROW + ROWS]``, one at least, whose positions are in ``scratch``
    where its SCRATCH is 1, else in ``data``. Those of batch ``n + 1`` follow without a gap; rows
    before the first and behind the last batch's mean nothing. ``aborted[n]``: its transaction was
    aborted.

    The reader uses the memory again: a table holds until the next one is asked for.
    """

    data: Buffer
    scratch: Buffer
    batches: IntArray
    columns: IntArray
    aborted: Sequence[bool]

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def first(self) -> int:
        """The first record's place in ``columns``."""
        return int(self.batches[0, ROW])

    @property
    def end(self) -> int:
        """The place behind the last record."""
        return int(self.batches[-1, ROW] + self.batches[-1, ROWS])

    def column(self, field: int) -> IntArray:
        """One number of each record."""
        found: IntArray = self.columns[field, self.first : self.end]
        return found

    def newest_times(self) -> list[int]:
        """The greatest time (ms) of the first batch, and of all of them."""
        times: list[int] = self.batches[:, MAX_TIMESTAMP].tolist()
        return [times[0], max(times)]

    def within_times(self, first: int, end: int) -> Table | None:
        """Those records with times (ms) from ``first`` on and before ``end``; None: there are
        none."""
        import numpy as np

        times = self.column(TIMESTAMP)
        keep = (times >= first) & (times < end)
        if keep.all():
            return self
        kept = np.concatenate(([0], keep.cumsum()))
        starts = self.batches[:, ROW] - self.first
        counts = kept[starts + self.batches[:, ROWS]] - kept[starts]
        some = counts > 0
        if not some.any():
            return None
        batches = self.batches[some]
        batches[:, ROW], batches[:, ROWS] = kept[starts[some]], counts[some]
        columns = np.ascontiguousarray(self.columns[:, self.first : self.end][:, keep])
        aborted = [self.aborted[number] for number in some.nonzero()[0].tolist()]
        return Table(self.data, self.scratch, batches, columns, aborted)


def worth_compiling(offsets: int) -> None:
    """This process is to read so many offsets more: if that is worth it, load the loops, in a
    thread; where numba is not, or ``TALLYMARK_JIT=0``, nothing changes."""
    global _asked  # one for the process: Spark gives a worker one task after the other
    _asked += offsets
    if _asked >= WORTH:
        use_compiled_loops()


class TableReader:
    """Reads batches into tables. Not thread-safe. Its memory is made when it is used first."""

    def __init__(self) -> None:
        self._columns: Any = None
        self._headers: Any = None

    def read(
        self, batches: Sequence[BatchRead], first: int, end: int
    ) -> Iterator[Table | BatchRead]:
        """The records with offsets from ``first`` on and before ``end``, as tables; and in between
        the batches that the loops cannot read, or that are better read without them."""
        if not kernel.ready() or _is_little(batches):
            yield from batches
            return
        data = b"".join([batch.data for batch, _ in batches])
        headers = self._found(data, len(batches))
        if headers is None:
            yield from batches
            return
        aborted = [is_aborted for _, is_aborted in batches]
        large = (headers[:, COUNT] > ROWS_AT_ONCE).nonzero()[0].tolist()
        at = 0
        for stop in (*large, len(headers)):
            while at < stop:
                scratch, unpacked = unpack_batches(data, headers[at:stop], _UNPACKED)
                some = Table(data, scratch, headers[at:][:unpacked], self._columns, aborted[at:])
                for found in self._read(some, first, end):
                    yield batches[at + found] if isinstance(found, int) else found
                at += unpacked
            if stop < len(headers):
                yield batches[stop]
                at = stop + 1

    def _found(self, data: Buffer, count: int) -> IntArray | None:
        if self._headers is None or len(self._headers) < count:
            self._headers = kernel.batch_table(max(256, count))
        if self._columns is None:
            self._columns = kernel.column_table(ROWS_AT_ONCE)
        headers: IntArray = self._headers[:count]
        return headers if kernel.find_batches(data, 0, headers) == count else None

    def _read(self, some: Table, first: int, end: int) -> Iterator[Table | int]:
        """The tables, and the numbers of the batches that the loops cannot read."""
        batches = some.batches
        at = 0
        while at < len(batches):
            done = kernel.read_batches(some.data, some.scratch, batches, at, self._columns)
            _cut(batches[at:done], self._columns, first, end)
            broken = (batches[at:done, BREAK] != WHOLE).nonzero()[0] + at
            for stop in (*broken.tolist(), done):
                if stop > at:
                    yield from _stretch(some, at, stop)
                if stop < done:
                    yield stop
                at = stop + 1
            at = done


def _stretch(some: Table, at: int, stop: int) -> Iterator[Table]:
    """The batches from ``at`` to ``stop``, each table's without a gap between their records."""
    batches = some.batches[at:stop]
    gaps = (batches[1:, ROW] != batches[:-1, ROW] + batches[:-1, ROWS]).nonzero()[0] + 1
    begin = 0
    for end in (*gaps.tolist(), len(batches)):
        numbers = [number for number in range(begin, end) if batches[number, ROWS] > 0]
        if numbers:
            aborted = [some.aborted[at + number] for number in numbers]
            yield replace(some, batches=batches[numbers], aborted=aborted)
        begin = end


def _is_little(batches: Sequence[BatchRead]) -> bool:
    few = len(batches) < _FEW_BATCHES
    return few and sum([len(batch.data) for batch, _ in batches]) < _FEW_BYTES


def _cut(batches: IntArray, columns: IntArray, first: int, end: int) -> None:
    """Leave out records outside the span: it may begin and end within a batch."""
    outside = (batches[:, BASE_OFFSET] < first) | (batches[:, LAST_OFFSET] >= end)
    for number in (outside & (batches[:, ROWS] > 0)).nonzero()[0].tolist():
        batch = batches[number]
        row = int(batch[ROW])
        offsets = columns[OFFSET, row : row + int(batch[ROWS])]
        before = int((offsets < first).sum())
        inside = int(((offsets >= first) & (offsets < end)).sum())
        if (offsets[:before] < first).all() and (offsets[before + inside :] >= end).all():
            batch[ROW] += before
            batch[ROWS] = inside
        else:  # no broker writes such a batch
            batch[BREAK], batch[ROWS] = _NOT_HERE, 0
