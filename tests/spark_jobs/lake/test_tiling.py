"""Manifests tile the plan exactly, or nothing is committed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_spark_jobs.lake.table import (
    Append,
    Conflict,
    DataFile,
    Manifest,
    OffsetRange,
    PartitionKey,
    Place,
    Refused,
)
from tallymark_spark_jobs.lake.tiling import check_append, check_offsets, problems_of

PLACE = Place("page-views", "2026-01-31", "08")


def key(partition: int) -> PartitionKey:
    return PartitionKey("cluster", "topic-id", "page-views", partition)


def manifest(partition: int, start: int, end: int, gaps: int = 0) -> Manifest:
    rows = end - start - gaps
    file = DataFile(f"{PLACE.folder}/{partition}-{start}.parquet", PLACE, rows, 100)
    return Manifest(OffsetRange(key(partition), start, end), (file,), rows, gaps=gaps)


@st.composite
def appends(draw: st.DrawFn) -> Append:
    """What a load without a fault returns, its tasks in any order."""
    plan, manifests = [], []
    for partition in draw(st.sets(st.integers(0, 5), min_size=1)):
        bounds = sorted(draw(st.sets(st.integers(0, 40), min_size=2, max_size=6)))
        plan.append(OffsetRange(key(partition), bounds[0], bounds[-1]))
        for start, end in pairwise(bounds):
            gaps = draw(st.integers(0, end - start))
            manifests.append(manifest(partition, start, end, gaps))
    return Append("job", tuple(plan), tuple(draw(st.permutations(manifests))))


@given(appends())
def test_what_tiles_the_plan_is_accepted(append: Append) -> None:
    check_append(append)


@given(appends(), st.data())
def test_any_change_is_refused(append: Append, data: st.DataObject) -> None:
    """A task that is not there, is there twice, is longer, shorter or elsewhere, or counts another
    number of rows or gaps: each of them is found."""
    parts = list(append.manifests)
    at = data.draw(st.integers(0, len(parts) - 1))
    part, span = parts[at], parts[at].span
    by = data.draw(st.integers(-60, 60).filter(bool))
    changed = data.draw(
        st.sampled_from(
            [
                [],
                [part, part],
                [replace(part, span=span._replace(start=span.start + by))],
                [replace(part, span=span._replace(end=span.end + by))],
                [replace(part, span=OffsetRange(span.key, span.start + by, span.end + by))],
                [replace(part, span=span._replace(key=key(9)))],
                [replace(part, rows=part.rows + by)],
                [replace(part, gaps=part.gaps + by)],
                [replace(part, rows=part.rows + by, gaps=part.gaps - by)],
                [replace(part, expired=by)],
                [replace(part, quarantined=by)],
            ]
        )
    )
    broken = replace(append, manifests=(*parts[:at], *changed, *parts[at + 1 :]))
    with pytest.raises(Refused):
        check_append(broken)


@given(appends(), st.data())
def test_offsets_are_tiled_exactly_when_each_is_named_once(
    append: Append, data: st.DataObject
) -> None:
    """Held against a set of offsets, which knows nothing of sorting."""
    spans = data.draw(
        st.lists(
            st.builds(
                lambda partition, start, length: OffsetRange(key(partition), start, start + length),
                st.sampled_from([span.key.partition for span in append.plan]),
                st.integers(0, 40),
                st.integers(0, 40),
            ),
            max_size=4,
        )
    )
    parts = [*append.manifests, *(manifest(s.key.partition, s.start, s.end) for s in spans)]
    picked = data.draw(st.lists(st.sampled_from(parts), unique_by=id, max_size=len(parts)))
    picked = [
        replace(part, files=(), rows=0, gaps=part.span.end - part.span.start) for part in picked
    ]
    named = [(p.span.key, offset) for p in picked for offset in range(p.span.start, p.span.end)]
    planned = {(s.key, offset) for s in append.plan for offset in range(s.start, s.end)}
    exact = len(named) == len(set(named)) and set(named) == planned
    tried = replace(append, manifests=tuple(picked))
    assert (not list(problems_of(tried))) == exact


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([manifest(0, 0, 4), manifest(0, 6, 10)], "no task returned offsets 4 to 5"),
        ([manifest(0, 0, 6), manifest(0, 4, 10)], "offsets 4 to 5 were returned twice"),
        ([manifest(0, 0, 9)], "no task returned offsets 9 to 9"),
        ([manifest(0, 0, 11)], "offsets 10 to 10 were not planned"),
        ([manifest(0, 0, 10), manifest(1, 0, 10)], "page-views-1 was not planned"),
        (
            [replace(manifest(0, 0, 10), rows=9)],
            "10 offsets, but 9 rows, 0 in quarantine, 0 gaps and 0 expired",
        ),
        ([replace(manifest(0, 0, 10, gaps=1), files=())], "9 rows, but its files hold 0"),
    ],
)
def test_the_error_names_partition_and_offsets(parts: list[Manifest], said: str) -> None:
    with pytest.raises(Refused, match=said):
        check_append(Append("job", (OffsetRange(key(0), 0, 10),), tuple(parts)))


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/x.parquet", "a/../../x", "s3://b/x", ""])
def test_files_outside_the_table_are_refused(path: str) -> None:
    part = manifest(0, 0, 10)
    for broken in (
        replace(part, files=(replace(part.files[0], path=path),)),
        replace(part, side_files=(path,)),
    ):
        with pytest.raises(Refused, match="outside"):
            check_append(Append("job", (part.span,), (broken,)))


def test_a_load_begins_where_the_table_ends() -> None:
    append = Append("job", (OffsetRange(key(0), 10, 20),), (manifest(0, 10, 20),))
    check_offsets(append, {})
    check_offsets(append, {key(0): 10, key(1): 99})
    for loaded in (9, 11, 20):
        with pytest.raises(Conflict, match=f"loaded up to offset {loaded}, this load began at 10"):
            check_offsets(append, {key(0): loaded})


def test_a_repair_lies_below_what_is_loaded() -> None:
    append = Append("job", (OffsetRange(key(0), 10, 20),), (manifest(0, 10, 20),), repair=True)
    check_offsets(append, {key(0): 20})
    for offsets in ({}, {key(0): 19}):
        with pytest.raises(Refused, match="load the rest first"):
            check_offsets(append, offsets)
