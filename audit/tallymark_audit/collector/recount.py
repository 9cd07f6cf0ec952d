"""Count again what a cut log leaves of cells that reached beyond the cut.

A cell is a union of sequences over many batches, so what a cut removed cannot be subtracted: the
affected cells are read again, from the first offset any of them has up to the cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.client import FetchSpec
from tallymark.errors import CODES, KafkaError
from tallymark_audit.cells import CellKey
from tallymark_audit.collector.counting import MAX_RANGES, count
from tallymark_audit.collector.reading import EARLIEST, LogReader
from tallymark_audit.collector.runs import Rules, SeenRun, runs_in
from tallymark_audit.sides import Observation
from tallymark_audit.store.counts import Position

FETCH_BYTES: Final = 1 << 20


def count_again(
    reader: LogReader,
    position: Position,
    cut: int,
    affected: list[Observation],
    rules: Rules,
    max_ranges: int = MAX_RANGES,
) -> tuple[Position, dict[CellKey, Observation]]:
    """The position after the cut, and the affected cells as the log has them now. Those of which
    nothing is left are missing. KafkaError: the log cannot be read, or was cut again."""
    topic, partition = position.topic, position.partition
    to = replace(position, next_offset=cut, leader_epoch=-1)
    starts = [seen.first_offset for seen in affected if seen.first_offset >= 0]
    if not starts or min(starts) >= cut:
        return to, {}
    (log_start,) = reader.get_offsets_before(topic, partition, EARLIEST)
    at, epoch = max(min(starts), log_start), -1
    keys = {seen.key for seen in affected}
    rebuilt: dict[CellKey, Observation] = {}
    while at < cut:
        answer = reader.multifetch(
            [FetchSpec(topic, partition, at, epoch)],
            max_bytes=FETCH_BYTES,
            max_wait_ms=100,
            min_bytes=1,
        )[0]
        if isinstance(answer, KafkaError):
            raise answer
        if answer.high_watermark < cut:
            raise KafkaError(CODES["OFFSET_OUT_OF_RANGE"], f"{topic}-{partition} was cut again")
        seen = runs_in(answer.batches, topic, partition, at, rules)
        seen += runs_in(answer.left_out, topic, partition, at, rules, aborted=True)
        runs = [run for run in _until(seen, cut) if run.key in keys]
        rebuilt.update(count(runs, partition, rebuilt, max_ranges))
        at, epoch = answer.next_offset, answer.last_epoch
    return replace(to, leader_epoch=epoch), rebuilt


def _until(runs: list[SeenRun], cut: int) -> list[SeenRun]:
    """A log is cut between batches, but what was appended since may lie in the same answer."""
    return [run for run in runs if run.offset < cut]
