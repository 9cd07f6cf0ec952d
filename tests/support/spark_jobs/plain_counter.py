"""Counting record by record, in its plainest form: what
:class:`tallymark_spark_jobs.counting.counter.CellCounter` has to say, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark_audit.model.cells import Block, CellKey, Copy, window_of
from tallymark_audit.model.hashing import BLOCK, content
from tallymark_spark_jobs.counting.cell_runs import CellRun
from tallymark_spark_jobs.counting.counter import PieceLike
from tallymark_spark_jobs.counting.digests import BITS, folded_ranges, seed_of
from tallymark_spark_jobs.counting.intervals import levels
from tallymark_spark_jobs.counting.tally import COPIES_NAMED, CellTally, blocks_together


class _Seen(NamedTuple):
    """One record."""

    sequence: int
    offset: int
    timestamp: int
    size: int
    content: int


@dataclass(slots=True)
class _Cell:
    records: list[_Seen] = field(default_factory=list[_Seen])
    malformed: int = 0


class PlainCounter:
    """Counts the records of one topic's partition that lie in ``times`` (ms, the end excluded).
    ``contents``: hash keys and values too."""

    def __init__(
        self,
        topic: str,
        partition: int,
        window_ms: int,
        contents: bool = False,
        times: tuple[int, int] = (-(1 << 63), 1 << 63),
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._window_ms = window_ms
        self._contents = contents
        self._times = times
        self._cells: dict[tuple[CellKey, bool], _Cell] = {}

    def add(self, piece: PieceLike) -> None:
        """Count the records of a piece."""
        low, high = self._times
        for record in piece.columns.records():
            at = wrapped(record.timestamp)
            if not low <= at < high:
                continue
            window = window_of(at, self._window_ms)
            stamp = stamp_of(record.headers)
            size = len(record.key or b"") + len(record.value or b"")
            if isinstance(stamp, Stamp) and "\0" not in stamp.server:
                key = CellKey(
                    self._topic, stamp.partition, window, stamp.server, stamp.instance.hex()
                )
                hashed = content(stamp.sequence, record.key, record.value) if self._contents else 0
                cell = self._cells.setdefault((key, piece.aborted), _Cell())
                cell.records.append(_Seen(stamp.sequence, record.offset, at, size, hashed))
            elif not piece.aborted:
                key = CellKey(self._topic, self._partition, window, "", "")
                cell = self._cells.setdefault((key, False), _Cell())
                cell.records.append(_Seen(-1, record.offset, at, size, 0))
                cell.malformed += stamp is not None

    def runs(self) -> list[CellRun]:
        """The runs of what was added, cell by cell."""
        found: list[CellRun] = []
        for (key, aborted), cell in self._cells.items():
            copies = self._copies(cell) if key.stamped else []
            islands = self._islands(cell) if key.stamped else [cell.records]
            found += [self._run(key, aborted, some, copies, cell.malformed) for some in islands]
        return found

    def tallies(self) -> list[CellTally]:
        """The tallies of what was added."""
        by_cell: dict[tuple[CellKey, bool], list[CellRun]] = {}
        for run in self.runs():
            by_cell.setdefault((run.key, run.aborted), []).append(run)
        return [self._tally(key, aborted, runs) for (key, aborted), runs in by_cell.items()]

    def _copies(self, cell: _Cell) -> list[Copy]:
        """The further copies that are named: the first that was read is none."""
        seen: set[int] = set()
        found: list[Copy] = []
        for one in cell.records:
            if one.sequence in seen:
                found.append(Copy(self._partition, one.offset, one.sequence))
            seen.add(one.sequence)
        found.sort(key=lambda copy: (copy.sequence, copy.offset))
        return found[:COPIES_NAMED]

    def _islands(self, cell: _Cell) -> Iterable[Sequence[_Seen]]:
        """The records of each run."""
        run: list[_Seen] = []
        for one in sorted(cell.records):
            if run and (
                one.sequence > run[-1].sequence + 1
                or (self._contents and one.sequence // BLOCK > run[-1].sequence // BLOCK)
            ):
                yield run
                run = []
            run.append(one)
        yield run

    def _run(
        self,
        key: CellKey,
        aborted: bool,
        some: Sequence[_Seen],
        copies: Sequence[Copy],
        malformed: int,
    ) -> CellRun:
        sequences = {one.sequence for one in some}
        first, last = min(sequences), max(sequences)
        hashed = self._contents and key.stamped
        return CellRun(
            key,
            aborted,
            first if key.stamped else None,
            last if key.stamped else None,
            len(some),
            len(some) - len(sequences) if key.stamped else 0,
            tuple(copy for copy in copies if first <= copy.sequence <= last),
            sum(one.size for one in some),
            malformed,
            self._partition,
            min(one.offset for one in some),
            max(one.offset for one in some),
            min(one.timestamp for one in some),
            max(one.timestamp for one in some),
            first // BLOCK if hashed else None,
            sum(one.content for one in some) & BITS if hashed else None,
        )

    def _tally(self, key: CellKey, aborted: bool, runs: Sequence[CellRun]) -> CellTally:
        sequences = [
            (one.sequence, one.sequence) for one in self._cells[key, aborted].records if key.stamped
        ]
        (xor,), (total,) = folded_ranges([seed_of(key)], [0] * len(sequences), sequences)
        found = levels(sequences)
        return CellTally(
            key,
            aborted,
            sum(run.messages for run in runs),
            sum(run.extra for run in runs),
            sum(run.bytes for run in runs),
            sum(run.malformed for run in runs),
            found[0] if found else (),
            tuple(copy for run in runs for copy in run.copies),
            xor,
            total,
            self._partition,
            self._partition,
            min(run.first_offset for run in runs),
            max(run.last_offset for run in runs),
            min(run.min_timestamp for run in runs),
            max(run.max_timestamp for run in runs),
            blocks_together(
                Block(run.block, run.messages, run.content)
                for run in runs
                if run.block is not None and run.content is not None
            ),
            found[1:],
        )


def wrapped(timestamp: int) -> int:
    """A timestamp (ms) in 64 bits: a batch's base and a record's delta may add up to more, and then
    it is what Java makes of that."""
    return (timestamp + (1 << 63) & BITS) - (1 << 63)
