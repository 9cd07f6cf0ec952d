"""The rows of ``mode=runs`` and ``mode=cells``: without Spark, over logs in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from generated_logs import GeneratedLog, generated_log, pieces_of
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_counter import PlainCounter

from tallymark.protocol.records.batch import encode_batch, place_batch, split_batches
from tallymark.protocol.records.compiled import kernel
from tallymark_audit.model.hashing import MASK
from tallymark_spark_jobs.counting import counter
from tallymark_spark_jobs.counting.digests import digest_of_ranges
from tallymark_spark_jobs.source import kinds, tables
from tallymark_spark_jobs.source.counted import rows as module
from tallymark_spark_jobs.source.counted.rows import counted_rows
from tallymark_spark_jobs.source.damage import Damage, Expired
from tallymark_spark_jobs.source.options import Mode, SourceOptions, declared_schema
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import read_tables
from tallymark_spark_jobs.source.rows import schema_of
from tallymark_spark_jobs.source.tables import TableReader

W = 1000
SEEDS = st.integers(0, 2**64)
RUNS = SourceOptions("unused:1", mode="runs", window_ms=W, fail_on_corrupt_batch=False)


@pytest.fixture(scope="module")
def compiled() -> Iterator[None]:
    """With the compiled loops where they are: small fetches too."""
    pytest.importorskip("numba")
    kernel.warm()
    assert kernel.KERNEL.wait(250)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_FEW_BYTES", 0)
        yield


def rows_of(options: SourceOptions, log: GeneratedLog, pure: bool = False) -> list[dict[str, Any]]:
    span = Span("t", 3, 0, log.end)
    with pytest.MonkeyPatch.context() as patch:
        if pure:
            patch.setattr(kernel, "ready", lambda: False)
        found = counted_rows(options, span, read_tables(log, span, TableReader(), passes=True))
        return [row for batch in found for row in checked(batch, options).to_pylist()]


def checked(batch: Any, options: SourceOptions) -> Any:
    batch.validate(full=True)
    assert batch.schema.equals(schema_of(options))
    return batch


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def plain(options: SourceOptions, log: GeneratedLog) -> PlainCounter:
    made = PlainCounter("t", 3, options.window_ms, options.include_content_hash)
    for piece in pieces_of(log.batches):
        made.add(piece)
    return made


@settings(max_examples=60, deadline=None)
@given(SEEDS)
@pytest.mark.usefixtures("compiled")
def test_the_compiled_loops_and_the_pure_path_give_the_same_rows(seed: int) -> None:
    random = Random(seed)
    log = GeneratedLog(generated_log(seed), random.choice((1, 3, 100)))
    mode: Mode = random.choice(("runs", "cells"))
    options = replace(RUNS, mode=mode, include_content_hash=random.random() < 0.4)
    if random.random() < 0.3:
        options = replace(options, starting_timestamp=900, ending_timestamp=5_001)
    assert by_place(rows_of(options, log)) == by_place(rows_of(options, log, pure=True))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
@pytest.mark.usefixtures("compiled")
def test_the_rows_are_the_runs(seed: int, contents: bool) -> None:
    log = GeneratedLog(generated_log(seed), 3)
    options = replace(RUNS, include_content_hash=contents)
    expected = plain(options, log).runs()
    found = rows_of(options, log)
    assert len(found) == len(expected)
    rows = {tuple(row[name] for name in NAMES[:8]): row for row in found}
    for run in expected:
        row = rows[(*run.key, run.aborted, run.first_sequence, run.last_sequence)]
        assert [tuple(copy.values()) for copy in row["copies"]] == [*map(tuple, run.copies)]
        assert {name: row[name] for name in NAMES[8:]} == {
            name: getattr(run, name) for name in NAMES[8:]
        }
        assert (row["first_partition"], row["last_partition"], row["kind"]) == (3, 3, kinds.STAMPED)
        if contents and run.content is not None:
            low, high = row["content_low"], row["content_high"]
            assert low + (high << 32) & MASK == run.content
            assert row["block"] == run.block


NAMES = (
    *("topic", "origin_partition", "window", "server", "instance", "aborted"),
    *("first_sequence", "last_sequence", "messages", "extra", "bytes", "malformed"),
    *("first_offset", "last_offset", "min_timestamp", "max_timestamp"),
)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
@pytest.mark.usefixtures("compiled")
def test_the_cheap_pass_never_calls_equal_what_the_exact_one_does_not(seed: int) -> None:
    """Loss and duplication that cancel leave the count as it was."""
    log = GeneratedLog(generated_log(seed))
    options = replace(RUNS, mode="cells")
    tallies = {(one.key, one.aborted): one for one in plain(options, log).tallies()}
    rows = rows_of(options, log)
    assert len(rows) == len(tallies)
    for row in rows:
        key = tuple(row[name] for name in NAMES[:5])
        tally = next(
            one for one in tallies.values() if (one.key, one.aborted) == (key, row["aborted"])
        )
        digest = (
            row["messages"],
            row["digest_xor"] & MASK,
            row["digest_low"] + (row["digest_high"] << 32),
        )
        assert digest == (tally.messages, tally.digest_xor, tally.digest_sum)
        if tally.ranges:
            claimed = digest_of_ranges(tally.key, tally.ranges)
            assert (digest == claimed) == (tally.extra == 0)
            (first, last), *others = tally.ranges
            # As many as there are: one that was lost for one that came twice.
            moved = ((first + 1, last + 1), *others) if not others else ((first, last),)
            assert digest != digest_of_ranges(tally.key, moved)


def test_what_could_not_be_counted_has_a_row_of_its_kind() -> None:
    """``instance`` says where the log goes on, ``server`` why."""
    (bad,) = split_batches(encode_batch([(None, b"v" * 30, (), 7)], base_offset=0))
    broken = bytearray(bad.data)
    broken[70:] = b"\xff" * len(broken[70:])
    rows = []
    for base in (0, 1):
        data = bytearray(broken if base == 0 else bad.data)
        place_batch(data, 0, base, 0)
        rows += [(batch, False) for batch in split_batches(bytes(data))]
    for mode in ("runs", "cells"):
        options = replace(RUNS, mode=mode)
        damaged, good = sorted(rows_of(options, GeneratedLog(rows)), key=lambda row: -row["kind"])
        assert (damaged["damaged"], damaged["kind"]) == (True, kinds.DAMAGED)
        assert (damaged["messages"], damaged["first_offset"], damaged["instance"]) == (0, 0, "1:7")
        assert (good["damaged"], good["messages"], good["bytes"]) == (False, 1, 30)
        assert damaged["server"]


@pytest.mark.parametrize("mode", ["runs", "cells"])
@pytest.mark.parametrize("contents", [False, True])
def test_gaps_are_told_with_and_without_contents(mode: str, contents: bool) -> None:
    options = replace(RUNS, mode=mode, include_content_hash=contents)  # type: ignore[arg-type]
    span = Span("t", 3, 0, 50, left_out=70)
    read: list[Damage | Expired] = [Expired(0, 9), Damage(9, 20, "why", 1234, 5678)]
    found = [checked(one, options).to_pylist() for one in counted_rows(options, span, iter(read))]
    told = [(row["kind"], row["first_offset"], row["instance"], row["window"]) for (row,) in found]
    assert told == [
        (kinds.EXPIRED, 0, "9:-1", -W),
        (kinds.DAMAGED, 9, "20:5678", W),
        (kinds.LEFT_OUT, 50, "70:-1", -W),
    ]


def test_rows_go_out_while_the_span_is_read() -> None:
    """A task's memory is bounded: neither cells without end nor ranges without end stay in it."""
    rows = [(None, b"v", (("tm", b"\x01%08d\x00\x05web" % n),), 7) for n in range(2_000)]
    batches = [
        (batch, False)
        for at in range(0, 2_000, 50)
        for batch in split_batches(encode_batch(rows[at : at + 50], base_offset=at))
    ]
    log = GeneratedLog(batches, at_once=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counter, "AT_ONCE", 50)
        patch.setattr(
            counter.CellCounter.__init__, "__defaults__", (False, 100, (-(1 << 63), 1 << 63))
        )
        patch.setattr(module, "ROWS_AT_ONCE", 30)
        span = Span("t", 3, 0, log.end)
        read = read_tables(log, span, TableReader())
        sizes = [batch.num_rows for batch in counted_rows(RUNS, span, read)]
    assert sum(sizes) == 2_000
    assert max(sizes) == 30


def test_columns_that_are_not_wanted_are_left_out() -> None:
    log = GeneratedLog(generated_log(4))
    some = replace(RUNS, columns=("topic", "messages"))
    assert declared_schema(some) == "topic string, messages bigint"
    found = rows_of(some, log)
    assert {tuple(row) for row in found} == {("topic", "messages")}
    assert sum(row["messages"] for row in found) == sum(
        row["messages"] for row in rows_of(RUNS, log)
    )


def test_no_pandas_is_imported_to_make_rows() -> None:
    """It would cost each Python worker one to two seconds."""
    code = (
        "import sys; from tallymark_spark_jobs.source.counted.rows import counted_rows; "
        "from tallymark_spark_jobs.source.options import SourceOptions; "
        "from tallymark_spark_jobs.source.planning import Span; "
        "from tallymark_spark_jobs.source.damage import Expired; "
        "options = SourceOptions('x:1', mode='runs'); "
        "list(counted_rows(options, Span('t', 0, 0, 9), [Expired(0, 9)])); "
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_schemas_are_those_that_spark_declares() -> None:
    names = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "tinyint": pa.int8()}
    for mode in ("runs", "cells"):
        for contents in (False, True):
            options = replace(RUNS, mode=mode, include_content_hash=contents)
            declared = declared_schema(options).replace(
                "array<struct<partition: int, offset: bigint, sequence: bigint>>", "copies"
            )
            pairs = [pair.split(" ") for pair in declared.split(", ")]
            schema = schema_of(options)
            assert [name for name, _ in pairs] == schema.names
            for name, kind in pairs:
                if kind in names:
                    assert schema.field(name).type == names[kind]
