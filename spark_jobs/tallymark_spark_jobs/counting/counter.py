"""Count what one task reads of one partition: records in, runs and tallies out. Pure.

::

    pieces ──> columns of some thousand records ──(strips.cut)──> strips ──> cells ──> runs, tallies

Memory is bounded by :data:`MOST_RANGES`: the reader asks :attr:`CellCounter.full` after each piece,
passes on what there is and clears the counter. A cell that comes again after that is returned in
two parts, which :func:`tallymark_spark_jobs.counting.tally.merged` puts together; only further
copies of what was passed on before have no name then.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark_audit.model.cells import Block, CellKey
from tallymark_spark_jobs.counting.cell_runs import CellRun, GrowingCell
from tallymark_spark_jobs.counting.compiled.kernel import KERNEL, StripCutter
from tallymark_spark_jobs.counting.digests import BITS, folded_ranges, seed_of
from tallymark_spark_jobs.counting.identities import LEAST_DATA, NO_STAMP, Identity, Integers
from tallymark_spark_jobs.counting.intervals import levels
from tallymark_spark_jobs.counting.strips import Records, Strip, cut
from tallymark_spark_jobs.counting.tables import NULL_VALUE, TableLike, records_of
from tallymark_spark_jobs.counting.tally import CellTally, blocks_together

if TYPE_CHECKING:
    from tallymark.protocol.records.columns import RecordColumns

MOST_RANGES: Final = 100_000
"""So many runs a counter holds, of all its cells: about 100 MB where each is a cell of its own."""
AT_ONCE: Final = 16_384
"""So many records are cut into strips at once, and the rest of a batch."""
_ALWAYS: Final = (-(1 << 63), 1 << 63)


_Cut = Callable[..., tuple[list[Strip], list[Identity]]]


class PieceLike(Protocol):
    """What is used of the source's pieces: records of one batch. ``aborted``: their transaction
    was."""

    @property
    def columns(self) -> RecordColumns: ...
    @property
    def aborted(self) -> bool: ...


class CellCounter:
    """Counts the records of one partition whose timestamps lie in ``times`` (ms, the end excluded).
    ``contents``: keys and values are hashed too."""

    def __init__(
        self,
        topic: str,
        partition: int,
        window_ms: int,
        contents: bool = False,
        most_ranges: int = MOST_RANGES,
        times: tuple[int, int] = _ALWAYS,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._window_ms = window_ms
        self._contents = contents
        self._most_ranges = most_ranges
        self._times = times
        self._waiting = _Waiting()
        self._cells: dict[tuple[CellKey, bool], GrowingCell] = {}
        self._ranges = 0
        self._cutter: StripCutter | None = None

    @property
    def full(self) -> bool:
        """Whether it holds as many ranges as it may: pass on what there is, and :meth:`clear`."""
        return self._ranges >= self._most_ranges

    def add(self, piece: PieceLike) -> None:
        """Count the records of a piece."""
        self._waiting.add(piece.columns, piece.aborted, self._contents)
        if self._waiting.count >= AT_ONCE:
            self._flush()

    def add_table(self, table: TableLike) -> None:
        """Count the records of a table, which may change after that."""
        self._flush()
        if not KERNEL.ready():
            KERNEL.warm()
            self._count(partial(cut, records_of(table, self._contents)))
            return
        if self._cutter is None:
            self._cutter = StripCutter()
        self._count(partial(self._cutter.cut, table, contents=self._contents))

    def _count(self, cutter: _Cut) -> None:
        strips, senders = cutter(self._window_ms, self._times, straight=False)
        cells = self._cells_of(strips, senders)
        if self._goes_back(strips, cells):
            strips, senders = cutter(self._window_ms, self._times, straight=True)
            cells = self._cells_of(strips, senders)
        for strip, cell in zip(strips, cells, strict=True):
            self._ranges += cell.add(strip)
            if strip.sender < NO_STAMP:
                cell.malformed += strip.records

    def clear(self) -> None:
        """Begin anew, with what comes next."""
        self._flush()
        self._cells.clear()
        self._ranges = 0

    def runs(self) -> Iterator[CellRun]:
        """The runs of what was added, cell by cell."""
        self._flush()
        for (key, aborted), cell in self._cells.items():
            yield from cell.runs(key, aborted, self._partition)

    def tallies(self) -> list[CellTally]:
        """The tallies of what was added."""
        self._flush()
        found = list(self._cells.items())
        ranges = [cell.ranges() for _, cell in found]
        xors, sums = folded_ranges(
            [seed_of(key) for (key, _), _ in found],
            [number for number, some in enumerate(ranges) for _ in some],
            [pair for some in ranges for pair in some],
        )
        return [
            _tally(cell.runs(key, aborted, self._partition), some, xor, total)
            for ((key, aborted), cell), some, xor, total in zip(
                found, ranges, xors, sums, strict=True
            )
        ]

    def _flush(self) -> None:
        if self._waiting.count:
            records = self._waiting.records()
            self._waiting = _Waiting()
            self._count(partial(cut, records))

    def _cells_of(self, strips: Sequence[Strip], senders: Sequence[Identity]) -> list[GrowingCell]:
        """The cell of each strip."""
        here: dict[tuple[int, int, bool], GrowingCell] = {}
        found: list[GrowingCell] = []
        for strip in strips:
            name = strip[:3]
            cell = here.get(name)
            if cell is None:
                sender, window, aborted = strip.sender, strip.window, bool(strip.aborted)
                if sender > NO_STAMP:
                    partition, instance, server = senders[sender]
                    key = CellKey(self._topic, partition, window, server, instance)
                else:
                    key = CellKey(self._topic, self._partition, window, "", "")
                cell = self._cells.get((key, aborted))
                if cell is None:
                    cell = self._cells[key, aborted] = GrowingCell(self._contents)
                here[name] = cell
            found.append(cell)
        return found

    def _goes_back(self, strips: Sequence[Strip], cells: Sequence[GrowingCell]) -> bool:
        """Whether a strip that is not straight holds, or may hold, further copies."""
        greatest: dict[int, int] = {}
        for strip, cell in zip(strips, cells, strict=True):
            known = greatest.get(id(cell), cell.greatest)
            if strip.sequence <= known and not strip.straight and strip.sequence >= 0:
                return True
            greatest[id(cell)] = max(known, strip.sequence + strip.records - 1)
        return False


class _Waiting:
    """Columns of pieces, until they are enough to be looked at together."""

    def __init__(self) -> None:
        self.count = 0
        self._stamps: list[bytes | None] = []
        self._sizes: list[int] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._aborted: list[tuple[bool, int]] = []
        self._checksums: list[int] = []

    def add(self, columns: RecordColumns, aborted: bool, contents: bool) -> None:
        """``contents``: take the checksums of keys and values."""
        count = len(columns)
        self.count += count
        self._stamps += columns.last_headers(STAMP_HEADER)
        self._sizes += columns.sizes()
        self._offsets += columns.offsets
        self._timestamps += columns.timestamps
        self._aborted.append((aborted, count))
        if contents:
            self._checksums += map(checksum, columns.keys(), columns.values())

    def records(self) -> Records:
        """All that was added."""
        stamps = self._stamps
        if None in stamps:
            sizes = np.array([-1 if one is None else len(one) for one in stamps], np.int64)
            stamps = [one or b"" for one in stamps]
        else:
            sizes = _array(list(map(len, stamps)))  # type: ignore[arg-type] # no None
        data = b"".join(stamps) + bytes(LEAST_DATA)  # type: ignore[arg-type] # no None left
        lengths = np.maximum(sizes, 0)
        flags, counts = zip(*self._aborted, strict=True)
        return Records(
            np.frombuffer(data, np.uint8),
            lengths.cumsum() - lengths,
            sizes,
            _offsets(self._offsets),
            _timestamps(self._timestamps),
            _array(self._sizes),
            np.array(flags, np.bool_).repeat(counts),
            np.array(self._checksums, np.uint64) if self._checksums else None,
        )


def _array(numbers: list[int]) -> Integers:
    return np.fromiter(numbers, np.int64, len(numbers))


def _offsets(found: list[int]) -> Integers:
    """A record may claim any offset: one beyond 64 bits becomes the last there is."""
    try:
        return _array(found)
    except OverflowError:
        return _array([max(-(1 << 63), min(at, (1 << 63) - 1)) for at in found])


def _timestamps(found: list[int]) -> Integers:
    """ms. A batch's base and a record's delta may add up to more than 64 bits: then what Java makes
    of that."""
    try:
        return _array(found)
    except OverflowError:
        return _array([(at + (1 << 63) & BITS) - (1 << 63) for at in found])


def checksum(key: bytes | None, value: bytes | None) -> int:
    """Of key and value, as :func:`tallymark_audit.model.hashing.content` mixes it with the
    sequence."""
    high = 0 if key is None else zlib.crc32(key, len(key) + 1)
    return high << 32 | (NULL_VALUE if value is None else zlib.crc32(value))


def _tally(
    runs: Sequence[CellRun], ranges: Sequence[tuple[int, int]], xor: int, total: int
) -> CellTally:
    found = levels(ranges)
    partition = runs[0].partition
    return CellTally(
        runs[0].key,
        runs[0].aborted,
        sum([run.messages for run in runs]),
        sum([run.extra for run in runs]),
        sum([run.bytes for run in runs]),
        runs[0].malformed,
        found[0] if found else (),
        tuple(copy for run in runs for copy in run.copies),
        xor,
        total,
        partition,
        partition,
        min([run.first_offset for run in runs]),
        max([run.last_offset for run in runs]),
        min([run.min_timestamp for run in runs]),
        max([run.max_timestamp for run in runs]),
        blocks_together(
            Block(run.block, run.messages, run.content)
            for run in runs
            if run.block is not None and run.content is not None
        ),
        found[1:],
    )
