"""Which landed spans go into the commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark_spark_jobs.lake.table import Append, Manifest, OffsetRange, PartitionKey
from tallymark_spark_jobs.lake.tiling import check_append
from tallymark_spark_jobs.load.committable import committable
from tallymark_spark_jobs.load.landing import Landed

KEY = PartitionKey("cluster", "id", "t", 0)
OTHER = KEY._replace(partition=1)


def landed(key: PartitionKey, start: int, end: int) -> Landed:
    span = OffsetRange(key, start, end)
    return Landed(span, Manifest(span, gaps=end - start))


def failed(key: PartitionKey, start: int, end: int) -> Landed:
    return Landed(OffsetRange(key, start, end), failure=f"{key}: cannot be read from {start} on")


def test_a_partition_that_cannot_be_read_holds_up_no_other_one() -> None:
    """One damaged batch kept a whole topic out of the lake, and retention went on deleting."""
    planned = [OffsetRange(KEY, 0, 30), OffsetRange(OTHER, 5, 9)]
    found = committable(
        planned,
        [],
        [landed(OTHER, 5, 9), failed(KEY, 10, 20), landed(KEY, 20, 30), landed(KEY, 0, 10)],
    )
    assert found.ranges == (OffsetRange(KEY, 0, 10), OffsetRange(OTHER, 5, 9))
    assert [one.span for one in found.useless] == [OffsetRange(KEY, 20, 30)]
    assert found.failures == {KEY: "t-0: cannot be read from 10 on"}


def test_a_task_that_was_returned_twice_is_there_once() -> None:
    found = committable([OffsetRange(KEY, 0, 10)], [], [landed(KEY, 0, 10), landed(KEY, 0, 10)])
    assert len(found.manifests) == len(found.useless) == 1


def test_what_was_deleted_before_the_load_counts_as_landed() -> None:
    gap = OffsetRange(KEY, 3, 8)
    found = committable([OffsetRange(KEY, 3, 10)], [gap], [landed(KEY, 8, 10)])
    assert found.ranges == (OffsetRange(KEY, 3, 10),)
    assert [one.expired for one in found.manifests] == [5, 0]


SPANS = st.tuples(st.sampled_from([KEY, OTHER]), st.integers(0, 9), st.integers(1, 6))


@given(st.lists(SPANS, max_size=12), st.sets(st.integers(0, 11)))
def test_whatever_comes_back_the_commit_tiles_what_it_says(
    spans: list[tuple[PartitionKey, int, int]], broken: set[int]
) -> None:
    some = [
        (failed if at in broken else landed)(key, start, start + size)
        for at, (key, start, size) in enumerate(spans)
    ]
    found = committable([OffsetRange(KEY, 0, 12), OffsetRange(OTHER, 2, 12)], [], some)
    if found.ranges:
        check_append(Append("job", found.ranges, found.manifests))
    whole = [one.manifest for one in some if one.manifest is not None]
    assert len(found.manifests) + len(found.useless) == len(whole)
