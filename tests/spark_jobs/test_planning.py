"""Offset planning: what is read is fixed once, tiles exactly, and never silently less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import LogBounds, Span, plan, split

OPTIONS = SourceOptions("localhost:9092", topics=("t",))
BOUNDS = [LogBounds("t", 0, 10, 100), LogBounds("t", 1, 0, 50), LogBounds("t", 2, 7, 7)]


def test_the_whole_log_without_its_empty_partitions() -> None:
    assert plan(OPTIONS, BOUNDS) == [Span("t", 0, 10, 100), Span("t", 1, 0, 50)]


def test_offsets_by_partition_with_stand_ins_for_the_ends() -> None:
    options = replace(
        OPTIONS,
        starting={("t", 0): 20, ("t", 1): -2, ("t", 2): -2},
        ending={("t", 0): 30, ("t", 1): -1, ("t", 2): -1},
    )
    assert plan(options, BOUNDS) == [Span("t", 0, 20, 30), Span("t", 1, 0, 50)]


def test_a_partition_that_the_offsets_forget_is_an_error() -> None:
    with pytest.raises(UserError, match="says nothing of t-1"):
        plan(replace(OPTIONS, starting={("t", 0): 20}), BOUNDS)


@pytest.mark.parametrize("wanted", [{("t", 0): 5}, {("t", 0): 101}])
def test_offsets_that_are_not_there_fail_or_are_passed_over_when_allowed(
    wanted: dict[tuple[str, int], int],
) -> None:
    options = replace(OPTIONS, starting={("t", 0): 10}, ending=wanted)
    if wanted["t", 0] < 10:
        options = replace(OPTIONS, starting=wanted, ending={("t", 0): 100})
    with pytest.raises(UserError, match="holds the offsets 10 to 100"):
        plan(options, BOUNDS[:1])
    kept = plan(replace(options, fail_on_data_loss=False), BOUNDS[:1])
    assert kept == [Span("t", 0, 10, 100)]


def test_a_starting_timestamp_begins_where_the_broker_found_it() -> None:
    options = replace(OPTIONS, starting_timestamp=1_000)
    bounds = [LogBounds("t", 0, 10, 100, at_timestamp=40), LogBounds("t", 1, 0, 50)]
    assert plan(options, bounds) == [Span("t", 0, 40, 100)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 200)), max_size=4),
    st.integers(1, 90),
    st.integers(1, 9),
)
@example([(0, 4)], 2, 3)
def test_pieces_tile_the_spans(sizes: list[tuple[int, int]], rows: int, at_least: int) -> None:
    spans = [Span("t", p, start, start + size) for p, (start, size) in enumerate(sizes)]
    pieces = split(spans, rows, at_least)
    assert all(0 < piece.offsets <= rows for piece in pieces)
    covered = [(p.partition, at) for p in pieces for at in range(p.start, p.end)]
    assert covered == [(s.partition, at) for s in spans for at in range(s.start, s.end)]
    if sum(size for _, size in sizes) >= at_least:
        assert len(pieces) >= at_least if spans else not pieces
