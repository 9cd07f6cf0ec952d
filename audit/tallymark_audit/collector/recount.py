"""Count cells again from the log as it is now: those a cut left nothing certain of, and those that
are in doubt since the log may have been damaged after it was counted.

A cell is a union of sequences over many batches, so what is gone from a log cannot be subtracted:
the affected cells are read again, from the first offset any of them has up to the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.client import FetchSpec
from tallymark.errors import CODES, KafkaError
from tallymark_audit.cells import CellKey
from tallymark_audit.collector.bounds import overflow_window
from tallymark_audit.collector.counting import MAX_RANGES, count
from tallymark_audit.collector.reading import EARLIEST, LogReader
from tallymark_audit.collector.runs import Rules, SeenRun, runs_in
from tallymark_audit.sides import Observation
from tallymark_audit.store.counts import Position

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

    @property
    def done(self) -> bool:
        """Whether all was read."""
        return self.at >= self.end

    def step(self, reader: LogReader, rules: Rules, max_bytes: int = FETCH_BYTES) -> int:
        """Read once more; how many bytes. What retention took meanwhile is passed over.
        KafkaError: the log cannot be read, or was cut. CorruptRecordError: a batch is broken."""
        answer = reader.multifetch(
            [FetchSpec(self.topic, self.partition, self.at, self.epoch)],
            max_bytes=max_bytes,
            max_wait_ms=100,
            min_bytes=1,
        )[0]
        if isinstance(answer, KafkaError):
            if answer.code == CODES["OFFSET_OUT_OF_RANGE"] and self._skip_expired(reader):
                return 0
            raise answer
        if answer.high_watermark < self.end:
            raise KafkaError(
                CODES["OFFSET_OUT_OF_RANGE"], f"{self.topic}-{self.partition} was cut again"
            )
        self.log_start = max(self.log_start, answer.log_start_offset)
        seen = runs_in(answer.batches, self.topic, self.partition, self.at, rules)
        seen += runs_in(answer.left_out, self.topic, self.partition, self.at, rules, aborted=True)
        runs = [run for run in self._until_end(seen) if self.wanted(run.key)]
        self.cells.update(count(runs, self.partition, self.cells, self.max_ranges))
        self.at, self.epoch = answer.next_offset, answer.last_epoch
        return sum(len(batch.data) for batch in (*answer.batches, *answer.left_out))

    def _skip_expired(self, reader: LogReader) -> bool:
        (self.log_start,) = reader.get_offsets_before(self.topic, self.partition, EARLIEST)
        if self.log_start <= self.at:
            return False
        self.at, self.epoch = self.log_start, -1
        return True

    def _until_end(self, runs: list[SeenRun]) -> list[SeenRun]:
        """A log is cut between batches, but what was appended since may lie in the same answer."""
        return [run for run in runs if run.offset < self.end]


def count_again(
    reader: LogReader,
    position: Position,
    cut: int,
    affected: list[Observation],
    rules: Rules,
    max_ranges: int = MAX_RANGES,
) -> tuple[Position, dict[CellKey, Observation]]:
    """The position after the cut, and the affected cells as the log has them now. Those of which
    nothing is left are missing; a ``detached`` one stays as it was counted, since this log lacks a
    part of it, and one of records of many cells, since these say another one. KafkaError: the log
    cannot be read, or was cut again."""
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
        return to, stay
    (log_start,) = reader.get_offsets_before(topic, partition, EARLIEST)
    keys = {seen.key for seen in affected}
    again = Recount(
        topic, partition, max(min(starts), log_start), cut, keys.__contains__, max_ranges
    )
    while not again.done:
        again.step(reader, rules)
    return replace(to, leader_epoch=again.epoch), {**again.cells, **stay}


def _is_mixed(key: CellKey, rules: Rules) -> bool:
    """Whether the cell holds records that say of themselves other cells."""
    return key.overflow or key.window == overflow_window(rules.window_ms)
