"""What the compiled loops read of a span is what the pure path reads of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hostile_batches import garbage
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.protocol.records.batch import Batch, encode_batch, place_batch, split_batches
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


@dataclass
class Fetched:
    high_watermark: int
    batches: Sequence[Batch]
    next_offset: int
    left_out: Sequence[Batch]
    last_epoch: int = 0


@dataclass
class Log:
    """Answers with ``at_once`` batches from the asked offset on."""

    batches: list[tuple[Batch, bool]]
    at_once: int

    def fetch(self, topic: str, partition: int, offset: int, **_: int) -> Fetched:
        some = [one for one in self.batches if one[0].header.next_offset > offset][: self.at_once]
        kept = [batch for batch, aborted in some if not aborted]
        end = self.batches[-1][0].header.next_offset
        behind = some[-1][0].header.next_offset if some else offset
        return Fetched(end, kept, behind, [batch for batch, aborted in some if aborted])


def made(seed: int) -> Log:
    """Batches of many kinds: of one record and of hundreds, of equal and of different sizes,
    compressed or not, aborted, full of holes, and such as cannot be read."""
    random = Random(seed)
    batches: list[tuple[Batch, bool]] = []
    offset = random.randrange(3)
    for _ in range(random.randint(1, 12)):
        if random.random() < 0.1:
            count = random.randint(1, 4)
            room = bytearray(garbage(random.randrange(99), count=count, last_delta=count - 1))
        else:
            size = random.choice((0, 3, 90))
            rows = [
                (
                    random.choice((None, b"key")),
                    random.choice((None, b"v" * size, b"w" * random.randint(0, 99))),
                    random.choice(((), (("tm", b"stamp"),), (("tm", None), ("x", b"y")))),
                    random.choice((0, 5, 10)),
                )
                for _ in range(random.choice((1, 2, 7, 120)))
            ]
            room = bytearray(encode_batch(rows, compression=random.choice(("none", "zstd", "lz4"))))
        place_batch(room, 0, offset, 0)
        (batch,) = split_batches(bytes(room))
        batches.append((batch, random.random() < 0.2))
        offset = batch.header.next_offset + random.choice((0, 0, 0, 5))
    return Log(batches, random.randint(1, 8))


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
def test_tables_hold_the_records_of_the_pieces(seed: int, start: int, length: int) -> None:
    log = made(seed)
    end = min(start + length, log.batches[-1][0].header.next_offset)
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
