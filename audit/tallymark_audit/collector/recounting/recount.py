"""Count cells again from the present log: those that a cut has made uncertain, and those in doubt
since the log may have been damaged after it was counted.

A cell is a union of sequences over many batches, so records that are gone from a log cannot be
subtracted: the affected cells are read again, from their first offset up to their last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.client import FetchSpec
from tallymark.client.reading.behind import goes_on_at
from tallymark.errors import CODES, BatchCutError, CorruptMessageError, KafkaError
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_audit.collector.counting.cells import MAX_RANGES, count
from tallymark_audit.collector.counting.readable import read_part, without
from tallymark_audit.collector.holes import fetch_from
from tallymark_audit.collector.limits.window_bound import overflow_window
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.record_runs import Rules, SeenRun, runs_of_columns
from tallymark_audit.model.sides import Observation
from tallymark_audit.store.counted.damage import UnreadableSpan
from tallymark_audit.store.counted.positions import Position

FETCH_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Recount:
    """Cells of one partition under counting, fetch by fetch: ``at`` is read next, up to ``end``,
    excluded. ``wanted`` says which cells; ``cells`` are these as the log has them. ``log_start``:
    the first offset the log still had when it was last read."""

    topic: str
    partition: int
    at: int
    end: int
    wanted: Callable[[CellKey], bool]
    max_ranges: int = MAX_RANGES
    epoch: int = -1
    log_start: int = 0
    cells: dict[CellKey, Observation] = field(default_factory=dict[CellKey, Observation])
    known: Sequence[UnreadableSpan] = ()
    """What could not be read when it was counted: left out again, or it would be counted twice
    when it is repaired."""
    passes: bool = False
    """Whether to go on behind what cannot be read by now; ``holes`` is that."""
    holes: list[UnreadableSpan] = field(default_factory=list[UnreadableSpan])

    @property
    def done(self) -> bool:
        """Whether all was read."""
        return self.at >= self.end

    def step(self, reader: LogReader, rules: Rules, max_bytes: int = FETCH_BYTES) -> int:
        """Read once more; how many bytes. What retention took meanwhile is passed over.
        KafkaError: the log cannot be read, or was cut. CorruptMessageError: a batch is broken that
        was not when it was counted."""
        answer = reader.multifetch(
            [FetchSpec(self.topic, self.partition, self.at, self.epoch)],
            max_bytes=max_bytes,
            max_wait_ms=100,
            min_bytes=1,
        )[0]
        if isinstance(answer, KafkaError):
            if isinstance(answer, CorruptMessageError) and self._pass_over(reader, answer):
                return 0
            if answer.code == CODES["OFFSET_OUT_OF_RANGE"] and self._skip_expired(reader):
                return 0
            raise answer
        if answer.high_watermark < self.end:
            raise KafkaError(
                CODES["OFFSET_OUT_OF_RANGE"], f"{self.topic}-{self.partition} was cut again"
            )
        self.log_start = max(self.log_start, answer.log_start_offset)
        runs: list[SeenRun] = []

        def take(batch: Batch, columns: RecordColumns, aborted: bool) -> None:
            for run in runs_of_columns(columns, self.topic, self.partition, rules):
                run.aborted = aborted
                if self._counts(run):
                    runs.append(run)

        read = read_part(answer, self.at, take)
        new = without(read.holes, self.known)
        if new and not self.passes:
            where = self.topic, self.partition, new[0].start
            raise CorruptMessageError(*where, new[0].why, "", new[0].end, True)
        self.holes += new
        self.cells.update(count(runs, self.partition, self.cells, self.max_ranges))
        self.at, self.epoch = read.next_offset, read.last_epoch
        return sum(len(batch.data) for batch in (*answer.batches, *answer.left_out))

    def _skip_expired(self, reader: LogReader) -> bool:
        (self.log_start,) = reader.get_offsets_before(self.topic, self.partition, EARLIEST)
        if self.log_start <= self.at:
            return False
        self.at, self.epoch = self.log_start, -1
        return True

    def _pass_over(self, reader: LogReader, error: CorruptMessageError) -> bool:
        """Continue behind it, if it was not readable when it was counted, or must not be waited
        for."""
        for hole in self.known:
            if hole.start <= self.at < hole.end:
                self.at, self.epoch = hole.end, -1
                return True
        if not self.passes or isinstance(error, BatchCutError):
            return False
        place = (self.topic, self.partition)
        behind = goes_on_at(error, fetch_from(reader, place), self.end)
        self.holes.append(UnreadableSpan(self.at, behind, error.reason))
        self.at, self.epoch = behind, -1
        return True

    def _counts(self, run: SeenRun) -> bool:
        """Whether the run counts: a log is cut between batches, and later records may be in the
        same response."""
        left_out = any(hole.start <= run.offset < hole.end for hole in self.known)
        return run.offset < self.end and not left_out and self.wanted(run.key)


def count_again(
    reader: LogReader,
    position: Position,
    cut: int,
    affected: list[Observation],
    rules: Rules,
    max_ranges: int = MAX_RANGES,
    known: Sequence[UnreadableSpan] = (),
) -> tuple[Position, dict[CellKey, Observation], list[UnreadableSpan]]:
    """The position after the cut, the affected cells as the log has them now, and offsets that
    cannot be read, without those ``known``. Cells without any record left are missing. A
    ``detached`` cell stays as it was counted, since this log lacks a part of it; so does a cell
    that holds records of many cells, since their stamps name others. KafkaError: the log cannot be
    read, or was cut again."""
    topic, partition = position.topic, position.partition
    to = replace(position, next_offset=cut, leader_epoch=-1)
    stay = {
        seen.key: replace(seen, last_offset=cut - 1)
        for seen in affected
        if seen.detached or (_is_mixed(seen.key, rules) and seen.first_offset < cut)
    }
    affected = [seen for seen in affected if seen.key not in stay]
    affected = [seen for seen in affected if not _is_mixed(seen.key, rules)]
    starts = [seen.first_offset for seen in affected if seen.first_offset >= 0]
    if not starts or min(starts) >= cut:
        return to, stay, []
    (log_start,) = reader.get_offsets_before(topic, partition, EARLIEST)
    keys = {seen.key for seen in affected}
    again = Recount(
        topic, partition, max(min(starts), log_start), cut, keys.__contains__, max_ranges
    )
    again.known, again.passes = known, True
    while not again.done:
        again.step(reader, rules)
    return replace(to, leader_epoch=again.epoch), {**again.cells, **stay}, again.holes


def _is_mixed(key: CellKey, rules: Rules) -> bool:
    """Whether the cell holds records whose stamps name other cells."""
    return key.overflow or key.window == overflow_window(rules.window_ms)
