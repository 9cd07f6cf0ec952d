"""The compiled loops cut the runs that the pure path cuts, and find the same holes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import cast

import numpy as np
import pytest
from hostile_fetches import hostile_fetch
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.compiled import batch_loop, layout, record_loop
from tallymark.protocol.records.compiled import kernel as record_kernel
from tallymark_audit.collector.counting import fetch_runs, readable
from tallymark_audit.collector.counting.fetch_runs import FetchRuns, RunReader
from tallymark_audit.collector.counting.readable import Read, ReadablePart
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import merge_blocks
from tallymark_audit.model.compiled_runs import cutter, kernel, measure_loop, run_loop
from tallymark_audit.model.hashing import MASK, mix
from tallymark_audit.model.record_runs import MAX_TIMESTAMP, Rules, SeenRun

pytest.importorskip("numba")

W = 1000
EXEMPT = frozenset({b"another!".hex()})
PLACE = ("t", 3)
SEEDS = st.integers(0, 2**64)
READER = RunReader()


@pytest.fixture(scope="module")
def compiled() -> None:
    assert cutter.warm()


@contextmanager
def as_python() -> Iterator[None]:
    """The functions of both kernels as Python runs them."""
    with pytest.MonkeyPatch.context() as patch:
        for one in (record_kernel, kernel):
            patch.setattr(one, "byte_array", bytes)  # numbers of eight bits would not add up
        records = (batch_loop.find_batches, record_loop.read_batches, record_loop.read_one)
        runs = (run_loop.cut_runs, run_loop.join_runs, measure_loop.sketch_runs)
        for one, functions in ((record_kernel, records), (kernel, runs)):
            plain = {function.__name__: function for function in functions}
            patch.setattr(one.KERNEL, "_compiled", plain)
        yield


def read(fetched: ReadablePart, start: int, rules: Rules, pure: bool) -> tuple[Read, FetchRuns]:
    with pytest.MonkeyPatch.context() as patch:
        if pure:
            patch.setattr(fetch_runs, "ready", lambda: False)
        patch.setattr(fetch_runs, "FEW_BYTES", 0)
        return READER.read(fetched, start, PLACE, rules)


def joined(runs: list[SeenRun], rules: Rules) -> list[SeenRun]:
    """What the runs are where those that continue each other are put together."""
    found: list[SeenRun] = []
    for run in runs:
        before = found[-1] if found else None
        if before is not None and continues(before, run, rules):
            found[-1] = SeenRun(
                before.key,
                before.first,
                before.offset,
                before.raw,
                before.count + run.count,
                before.bytes + run.bytes,
                min(before.min_timestamp, run.min_timestamp),
                max(before.max_timestamp, run.max_timestamp),
                before.malformed + run.malformed,
                latency=sketches.merged((before.latency, run.latency)),
                blocks=merge_blocks(before.blocks, run.blocks),
            )
        else:
            found.append(run)
    return found


def continues(before: SeenRun, run: SeenRun, rules: Rules) -> bool:
    latest = max(before.max_timestamp, run.max_timestamp)
    return (
        before.key == run.key
        and before.raw == run.raw
        and run.offset == before.last_offset + 1
        and (not run.key.stamped or run.first == before.last + 1)
        and not before.skewed
        and not run.skewed
        and (rules.seen_at < 0 or latest <= rules.seen_at)
    )


def same(seed: int, content: bool) -> tuple[int, int]:
    """How many runs and holes there are; the assertions are that both paths say the same."""
    random = Random(seed)
    fetched, start = hostile_fetch(random)
    future, past = random.choice(((5000, 1500), (MAX_TIMESTAMP, 0), (2**70, -(2**70))))
    seen_at = random.choice((-1, -1, 6000, 0, MAX_TIMESTAMP))
    rules = Rules(random.choice((W, 7, 2**50)), future, past, seen_at, content, EXEMPT)
    expected, pure = read(fetched, start, rules, pure=True)
    got, found = read(fetched, start, rules, pure=False)
    assert got == expected
    assert found.dropped == pure.dropped
    if fetched.left_out:
        assert found.seen == pure.seen
    else:
        assert joined(found.seen, rules) == joined(pure.seen, rules)
        assert len(found.seen) <= len(pure.seen)
    return len(pure.seen) + len(pure.dropped), len(expected.holes)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@settings(max_examples=400, deadline=None)
@given(SEEDS, st.booleans())
def test_compiled_runs_are_those_of_the_pure_path(seed: int, content: bool) -> None:
    same(seed, content)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_uncompiled_the_loops_cut_the_same_runs(seed: int) -> None:
    """A fault that a debugger can find. Hashes need numbers that overflow: compiled code only."""
    with as_python():
        same(seed, content=False)


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
def test_the_seeds_have_runs_and_holes() -> None:
    found = [same(seed, content=False) for seed in range(200)]
    assert sum(runs > 0 for runs, _ in found) > 130
    assert 10 < sum(holes > 0 for _, holes in found) < 100


@pytest.mark.soak
@pytest.mark.usefixtures("compiled")
def test_a_million_batches_have_the_same_runs() -> None:
    for seed in range(300_000):  # a fetch of some batches each
        same(seed, content=bool(seed % 2))


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_without_joining_each_run_is_that_of_its_batch(seed: int) -> None:
    random = Random(seed)
    fetched, start = hostile_fetch(random)
    rules = Rules(W, 5000, 1500, random.choice((-1, 6000)), True, EXEMPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "join_runs", lambda *tables: tables[-2])
        got = read(fetched, start, rules, pure=False)
    assert got == read(fetched, start, rules, pure=True)


def stamped(first: int, count: int, base: int, at: int = 1600) -> bytes:
    return encode_batch(
        [
            (None, b"value", [("tm", encode_stamp(Stamp(b"instance", 0, first + n, "web")))], at)
            for n in range(count)
        ],
        base_offset=base,
    )


def part(*batches: bytes) -> ReadablePart:
    found = split_batches(b"".join(batches))
    end = found[-1].header.next_offset
    return ReadablePart(found, [], end, end)


RULES = Rules(W, 5000, 1500)


@pytest.mark.usefixtures("compiled")
def test_batches_of_one_producer_are_one_run() -> None:
    fetched = part(stamped(90, 3, 7), stamped(93, 1, 10), stamped(94, 5, 11))
    read_to, found = read(fetched, 7, RULES, pure=False)
    (run,) = found.seen
    assert (run.first, run.last, run.offset, run.last_offset) == (90, 98, 7, 15)
    assert read_to.next_offset == 16


@pytest.mark.usefixtures("compiled")
def test_after_so_many_bytes_the_rest_is_for_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [stamped(4 * n, 4, 4 * n) for n in range(9)]
    fetched = part(*batches)
    for bound in (1, len(batches[0]) - 61, len(batches[0]) * 3, len(batches[0]) * 9 - 61 * 9):
        monkeypatch.setattr(readable, "AT_ONCE", bound)
        expected, pure = read(fetched, 2, RULES, pure=True)
        got, found = read(fetched, 2, RULES, pure=False)
        assert got == expected
        assert joined(found.seen, RULES) == joined(pure.seen, RULES)


@pytest.mark.usefixtures("compiled")
def test_fetches_of_more_records_than_the_tables_have_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = np.empty((layout.COLUMNS, 5), np.int64)
    monkeypatch.setattr(record_kernel, "column_table", lambda room: table)
    monkeypatch.setattr(READER, "_cutter", cutter.RunCutter(5))
    fetched = part(stamped(0, 4, 0), stamped(4, 6, 4), stamped(10, 5, 10), stamped(15, 1, 15))
    rules = replace(RULES, content_check=True, seen_at=6000)
    got, found = read(fetched, 0, rules, pure=False)
    assert got == read(fetched, 0, rules, pure=True)[0]
    (run,) = joined(found.seen, rules)
    assert (run.first, run.last, run.offset) == (0, 15, 0)
    for bound in range(1, sum(len(batch.data) for batch in fetched.batches), 50):
        monkeypatch.setattr(readable, "AT_ONCE", bound)
        expected, pure = read(fetched, 0, rules, pure=True)
        got, found = read(fetched, 0, rules, pure=False)
        assert got == expected
        assert joined(found.seen, rules) == joined(pure.seen, rules)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("rules", [Rules(2**62, 5000), Rules(W, 5000, seen_at=2**63)])
def test_numbers_that_need_more_than_64_bits_are_for_the_pure_path(rules: Rules) -> None:
    fetched = part(stamped(0, 4, 0))
    assert read(fetched, 0, rules, pure=False) == read(fetched, 0, rules, pure=True)


def test_small_fetches_are_for_the_pure_path() -> None:
    """They are most of what a quiet topic has, and the loops would take twice as long."""
    reader = RunReader()
    assert reader.read(part(stamped(0, 4, 0)), 0, PLACE, RULES)[1].seen
    assert reader._cutter is None


def test_integers_have_the_buckets_of_the_sketches() -> None:
    bounds = kernel.sketch_bounds()
    for value in (*range(2000), *(round(1.05**n) for n in range(890)), 2**63 - 1):
        assert bounds[1, measure_loop.bucket_at(bounds, value)] == sketches.bucket_of(value)


def test_the_bounds_of_the_buckets_are_exact() -> None:
    greatest, buckets = kernel.sketch_bounds()[:, :-1].tolist()
    for value, bucket in zip(greatest, buckets, strict=True):
        assert sketches.bucket_of(value) <= bucket < sketches.bucket_of(value + 1)


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_the_crc_is_that_of_zlib(data: bytes, before: int) -> None:
    tables = kernel.crc_tables().tolist()
    table = np.array(tables, object)
    found = measure_loop.crc32(table, b"xx" + data + b"y", 2, len(data), before)
    assert found == zlib.crc32(data, before)


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1, -1, -(2**63), 0x1234_5678_9ABC_DEF0])
def test_hashes_are_mixed_as_in_the_reference(number: int) -> None:
    with np.errstate(over="ignore"):
        found = int(measure_loop.mix(cast("int", np.int64(number))))
    assert found & MASK == mix(number & MASK)
