"""Rows of ``mode=runs`` and ``mode=cells``: a task counts what it reads, and gives what it counted.

::

    tables, pieces ──> CellCounter ──> 1 row a run of sequences, or 1 row a cell

Memory does not grow with the span: when the counter is full, its rows go out and it begins anew, so
a cell may have rows of several tasks, and of one task several. What could not be counted has a row
of its ``kind``, without messages, that says where as the rows of ``mode=stamps`` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from tallymark_audit.model.cells import window_of
from tallymark_spark_jobs.counting.cell_runs import CellRun
from tallymark_spark_jobs.counting.codec import signed
from tallymark_spark_jobs.counting.counter import CellCounter
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.source import columns, kinds
from tallymark_spark_jobs.source.declared import columns_of
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Damage, Expired, Piece, Table
from tallymark_spark_jobs.source.rows import place_behind, schema_of

ROWS_AT_ONCE: Final = 10_000
_LOW: Final = 0xFFFFFFFF
_Row = tuple[Any, ...]
_Halves = tuple[int | None, int | None]


def counted_rows(
    options: SourceOptions, span: Span, read: Iterable[Table | list[Piece] | Damage | Expired]
) -> Iterator[Any]:
    """Arrow batches in the schema of the options' mode, of what was read of the span."""
    first, end = options.starting_timestamp, options.ending_timestamp
    times = (-(1 << 63) if first is None else first, 1 << 63 if end is None else end)
    contents = options.include_content_hash
    counter = CellCounter(span.topic, span.partition, options.window_ms, contents, times=times)
    rows = _Rows(options, span)
    for part in read:
        if isinstance(part, Table):
            counter.add_table(part)
        elif isinstance(part, Damage):
            yield rows.not_counted(kinds.DAMAGED, part)
        elif isinstance(part, Expired):
            yield rows.not_counted(kinds.EXPIRED, Damage(part.offset, part.end, "", -1))
        else:
            for piece in part:
                counter.add(piece)
                if counter.full:
                    yield from rows.of(counter)
        if counter.full:
            yield from rows.of(counter)
    yield from rows.of(counter)
    if span.left_out:
        yield rows.not_counted(kinds.LEFT_OUT, Damage(span.end, span.left_out, "", -1))


class _Rows:
    """Makes the rows of one span."""

    def __init__(self, options: SourceOptions, span: Span) -> None:
        self._span = span
        self._window_ms = options.window_ms
        self._is_cells = options.mode == "cells"
        self._contents = options.include_content_hash
        self._names = list(columns_of(options.mode, False, self._contents))
        self._schema = schema_of(options)

    def of(self, counter: CellCounter) -> Iterator[Any]:
        """What was counted; the counter begins anew."""
        rows: Iterator[_Row] = (
            map(self._cell, counter.tallies()) if self._is_cells else map(self._run, counter.runs())
        )
        while some := list(islice(rows, ROWS_AT_ONCE)):
            yield self._batch(some)
        counter.clear()

    def not_counted(self, kind: int, found: Damage) -> Any:
        """The row for these offsets."""
        topic, partition = self._span.topic, self._span.partition
        window = window_of(found.since, self._window_ms)
        where = (partition, partition, found.offset, found.offset, found.since, found.since)
        cell = (topic, partition, window, found.why, place_behind(found))
        counts = (0, 0, 0, 0) if self._is_cells else (0, 0, ())
        row = (*cell, False, kind == kinds.DAMAGED, kind, *self._block(None), None, None, *counts)
        return self._batch([(*row, 0, 0, *where, *self._halves(None))])

    def _run(self, run: CellRun) -> _Row:
        return (
            *run.key,
            run.aborted,
            False,
            kinds.STAMPED,
            *self._block(run.block),
            run.first_sequence,
            run.last_sequence,
            run.messages,
            run.extra,
            run.copies,
            run.bytes,
            run.malformed,
            run.partition,
            run.partition,
            run.first_offset,
            run.last_offset,
            run.min_timestamp,
            run.max_timestamp,
            *self._halves(run.content),
        )

    def _cell(self, tally: CellTally) -> _Row:
        ranges = tally.ranges
        hashes = sum(block.hash for block in tally.blocks) if tally.key.stamped else None
        return (
            *tally.key,
            tally.aborted,
            False,
            kinds.STAMPED,
            ranges[0][0] if ranges else None,
            ranges[-1][1] if ranges else None,
            tally.messages,
            signed(tally.digest_xor),
            *_halves(tally.digest_sum),
            tally.bytes,
            tally.malformed,
            tally.first_partition,
            tally.last_partition,
            tally.first_offset,
            tally.last_offset,
            tally.min_timestamp,
            tally.max_timestamp,
            *self._halves(hashes),
        )

    def _block(self, block: int | None) -> _Row:
        return (block,) if self._contents and not self._is_cells else ()

    def _halves(self, hashes: int | None) -> _Row:
        return _halves(hashes) if self._contents else ()

    def _batch(self, rows: Sequence[_Row]) -> Any:
        values = dict(zip(self._names, zip(*rows, strict=True), strict=True))
        made = [_column(field.type, list(values[field.name])) for field in self._schema]
        return pa.RecordBatch.from_arrays(made, schema=self._schema)


def _halves(number: int | None) -> _Halves:
    """The lower and the upper 32 of 64 bits, since sums of 64 bits would not fit."""
    return (None, None) if number is None else (number & _LOW, number >> 32 & _LOW)


def _column(kind: Any, values: list[Any]) -> Any:
    if pa.types.is_string(kind):
        return columns.strings(values)
    if pa.types.is_boolean(kind):
        return columns.booleans(values)
    if not pa.types.is_list(kind):
        return columns.integers(values, kind)
    copy = kind.value_type
    flat = list(chain.from_iterable(values))
    fields = [columns.integers([row[at] for row in flat], copy.field(at).type) for at in range(3)]
    return columns.lists(kind, [len(some) for some in values], columns.structs(copy, fields))
