"""What the compiled loops read of a span is what the pure path reads of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import Log, made

from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.compiled import kernel
from tallymark.protocol.records.compiled.layout import (
    KEY,
    KEY_SIZE,
    OFFSET,
    ROW,
    ROWS,
    SCRATCH,
    STAMP,
    STAMP_SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
)
from tallymark_spark_jobs.source import tables
from tallymark_spark_jobs.source.damage import Damage
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Expired, Piece, read_span, read_tables
from tallymark_spark_jobs.source.tables import Table, TableReader

pytest.importorskip("numba")

Row = tuple[int, int, bytes | None, bytes | None, bytes | None, bool]
"""Offset, timestamp, key, value, stamp, whether it was aborted."""


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    kernel.warm()
    assert kernel.KERNEL.wait(250)


def rows_of(
    found: Iterator[Table | list[Piece] | Damage | Expired], times: tuple[int, int] | None = None
) -> tuple[list[Row], list[Damage]]:
    rows: list[Row] = []
    damaged: list[Damage] = []
    for one in found:
        if isinstance(one, Table):
            some = one if times is None else one.within_times(*times)
            rows += [] if some is None else list(of_table(some))
        elif isinstance(one, Damage):
            damaged.append(one)
        elif isinstance(one, list):
            rows += [
                (r.offset, r.timestamp, r.key, r.value, stamp, piece.aborted)
                for piece in one
                for r, stamp in zip(piece.records(), piece.columns.last_headers("tm"), strict=True)
                if times is None or times[0] <= r.timestamp < times[1]
            ]
    return rows, damaged


def of_table(table: Table) -> Iterator[Row]:
    assert table.batches[:, ROWS].sum() == len(table)
    for batch, aborted in zip(table.batches, table.aborted, strict=True):
        source = bytes(table.scratch if batch[SCRATCH] else table.data)
        assert batch[ROWS] > 0
        for row in range(batch[ROW], batch[ROW] + batch[ROWS]):
            record = table.columns[:, row]

            def cut(at: int, size: int, record: object = record, source: bytes = source) -> object:
                start, length = int(record[at]), int(record[size])  # type: ignore[index]
                return None if length < 0 else source[start : start + length]

            key, value, stamp = cut(KEY, KEY_SIZE), cut(VALUE, VALUE_SIZE), cut(STAMP, STAMP_SIZE)
            yield int(record[OFFSET]), int(record[TIMESTAMP]), key, value, stamp, aborted  # type: ignore[misc]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 300), st.integers(1, 600))
@pytest.mark.slow
def test_tables_hold_the_records_of_the_pieces(seed: int, start: int, length: int) -> None:
    log = made(seed)
    end = min(start + length, log.end)
    span = Span("t", 0, start, end)
    expected = rows_of(read_span(log, span, True))
    assert rows_of(read_tables(log, span, TableReader(), True)) == expected
    times = (seed % 7, seed % 12)
    assert rows_of(read_tables(log, span, TableReader(), True), times)[0] == [
        row for row in expected[0] if times[0] <= row[1] < times[1]
    ]


def test_tables_are_used_at_all_and_again_when_one_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 100)
    batches: list[tuple[Batch, bool]] = []
    for at, count in ((0, 60), (60, 60), (120, 5000), (5120, 60)):
        rows = [(None, b"v" * n, (), n) for n in range(count)]
        batches += [(one, False) for one in split_batches(encode_batch(rows, base_offset=at))]
    found = read_tables(Log(batches, 9), Span("t", 0, 0, 5180), TableReader())
    kinds = [(type(one), len(one)) for one in found]
    # A table has room for some records more than it must have: 432 here. That of 5,000 is no table.
    assert kinds == [(Table, 120), (list, 1), (Table, 60)]


def test_a_table_is_worth_loading_the_loops_for_many_records_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loops take 0.4 s of processor time: a job over a few thousand messages would pay it in
    each of its Python workers."""
    asked: list[bool] = []
    monkeypatch.setattr(tables, "use_compiled_loops", lambda: asked.append(True))
    monkeypatch.setattr(tables, "_asked", 0)
    tables.worth_compiling(tables.WORTH // 2)
    assert not asked
    tables.worth_compiling(tables.WORTH // 2)
    assert asked, "a worker of Spark reads one span after the other"
