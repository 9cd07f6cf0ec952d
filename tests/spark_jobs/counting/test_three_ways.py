"""What the loop cuts is what numpy cuts, of the records of tables and of pieces."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from generated_logs import GeneratedLog, generated_log
from hypothesis import given, settings
from hypothesis import strategies as st
from three_ways import WAYS, hostile_log, rows_of, warm

from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.compiled.layout import (
    BATCH_FIELDS,
    COLUMNS,
    ROW,
    ROWS,
    STAMP,
    STAMP_SIZE,
)
from tallymark_spark_jobs.counting.compiled import strip_loop
from tallymark_spark_jobs.counting.compiled.kernel import KERNEL, crc_tables
from tallymark_spark_jobs.source.options import Mode, SourceOptions

pytest.importorskip("numba")

SEEDS = st.integers(0, 2**64)
COUNTING = SourceOptions("unused:1", mode="runs", window_ms=1000, fail_on_corrupt_batch=False)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    warm()


def same(seed: int, log: GeneratedLog, start: int = 0) -> int:
    """How many rows there are; the assertions are that all ways give the same."""
    random = Random(seed)
    mode: Mode = random.choice(("runs", "runs", "cells"))
    contents = random.random() < 0.3
    window_ms = random.choice((1000, 7, 86_400_000))
    options = replace(COUNTING, mode=mode, include_content_hash=contents, window_ms=window_ms)
    if random.random() < 0.3:
        options = replace(options, starting_timestamp=900, ending_timestamp=5_001)
    expected = rows_of(options, log, "pure", start)
    for way in WAYS[1:]:
        if way != "python" or not contents:  # whose products overflow on purpose
            assert rows_of(options, log, way, start) == expected, (seed, way)
    return len(expected)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
@pytest.mark.slow
def test_logs_are_counted_alike(seed: int) -> None:
    same(seed, GeneratedLog(generated_log(seed), Random(seed).choice((1, 3, 100))))


@settings(max_examples=60, deadline=None)
@given(SEEDS)
@pytest.mark.slow
def test_hostile_logs_are_counted_alike(seed: int) -> None:
    same(seed, *hostile_log(Random(seed)))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_million_hostile_batches_are_counted_alike() -> None:
    seed = batches = 0
    while batches < 1_000_000:
        seed += 1
        log, start = hostile_log(Random(seed))
        batches += len(log.batches)
        same(seed, log, start)
    assert batches >= 1_000_000


def test_servers_that_hash_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write a topic chooses the names: a hash only says where to look."""
    monkeypatch.setattr(strip_loop, "hash_of", lambda *_: 5)
    rows = [
        (None, b"v", (("tm", b"\x01instance\x00" + bytes((n,)) + name),), 7)
        for n in range(20)
        for name in (b"ab", b"abc", b"", b"abd")
    ]
    log = GeneratedLog([(split_batches(encode_batch(rows))[0], False)])
    found = rows_of(COUNTING, log, "python")
    assert [(row["server"], row["messages"]) for row in found] == [
        ("", 20),
        ("ab", 20),
        ("abc", 20),
        ("abd", 20),
    ]
    assert found == rows_of(COUNTING, log, "compiled")


def test_tables_that_do_not_fit_are_refused() -> None:
    """The loop compares every position with the end of its buffer before it reads a byte."""
    batches = np.zeros((1, BATCH_FIELDS), np.int64)
    batches[0, ROWS] = 4
    columns = np.zeros((COLUMNS, 4), np.int64)
    good = {
        "data": np.frombuffer(b"\x01" * 50, np.uint8),
        "scratch": np.frombuffer(b"", np.uint8),
        "batches": batches,
        "aborted": np.zeros(1, np.bool_),
        "columns": columns,
        "rules": np.array((1000, 0, 1 << 62, 0, 1), np.int64),
        "crcs": crc_tables(),
        "slots": np.full(16, -1, np.int64),
        "cells": np.empty((4, strip_loop.CELL_FIELDS), np.int64),
        "strips": np.empty((4, strip_loop.STRIP_FIELDS), np.int64),
    }

    def cut(**changed: object) -> int:
        return int(KERNEL["cut_strips"](*(good | changed).values()))

    def with_number(field: int, number: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        table = columns.copy()
        table[field] = number
        return table

    assert cut() == 1
    far = batches.copy()
    far[0, ROW] = 2**62
    for wrong in (
        {"batches": far},
        {"batches": batches[:, :5].copy()},
        {"aborted": np.zeros(0, np.bool_)},
        {"columns": columns[:3].copy()},
        {"rules": np.zeros(5, np.int64)},
        {"rules": np.ones(2, np.int64)},
        {"crcs": crc_tables()[:2].copy()},
        {"slots": np.full(4, -1, np.int64)},
        {"cells": np.empty((0, strip_loop.CELL_FIELDS), np.int64)},
        {"strips": np.empty((0, strip_loop.STRIP_FIELDS), np.int64)},
    ):
        assert cut(**wrong) == -1, wrong
    size, at = STAMP_SIZE, STAMP
    for number in (51, 2**62):
        assert cut(columns=with_number(size, number)) == -1
    table = with_number(size, 20)
    for position in (-1, 31, 2**63 - 1):
        table[at] = position
        assert cut(columns=table) == -1
