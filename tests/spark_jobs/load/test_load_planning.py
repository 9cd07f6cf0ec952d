"""Which offsets a load reads: from where the table ends to where the logs end, and never less in
silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_spark_jobs.lake.table import OffsetRange, PartitionKey
from tallymark_spark_jobs.load.planning import (
    LogState,
    capped,
    plan_load,
    readable,
    shares,
)


def key(partition: int, topic_id: str = "one") -> PartitionKey:
    return PartitionKey("cluster", topic_id, "t", partition)


def ranges(*spans: tuple[int, int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(key(partition), start, end) for partition, start, end in spans)


def test_a_partition_begins_where_the_table_ends_and_a_new_one_where_its_log_begins() -> None:
    logs = [LogState(key(0), 5, 20), LogState(key(1), 7, 20), LogState(key(2), 3, 3)]
    plan = plan_load(logs, {key(0): 12})
    assert plan.ranges == ranges((0, 12, 20), (1, 7, 20))
    assert (plan.lost, plan.problems, plan.offsets) == ((), (), 21)


def test_a_topic_made_anew_begins_at_its_own_beginning() -> None:
    """The new topic's offsets are lower than those that were loaded of the old one: a load that
    knew only the name passed all of them over as loaded."""
    again = LogState(key(0, "two"), 0, 4)
    plan = plan_load([again], {key(0, "one"): 1_000})
    assert plan.ranges == (OffsetRange(key(0, "two"), 0, 4),)


def test_what_retention_deleted_is_a_problem_and_never_skipped() -> None:
    logs = [LogState(key(0), 15, 20), LogState(key(1), 0, 20)]
    plan = plan_load(logs, {key(0): 12, key(1): 18})
    assert plan.ranges == ranges((1, 18, 20)), "the healthy partition is loaded all the same"
    (problem,) = plan.problems
    assert problem.range == OffsetRange(key(0), 12, 15)
    assert "3 offsets from 12 to 14 were deleted" in problem.text


def test_an_accepted_gap_is_in_the_plan_as_lost() -> None:
    plan = plan_load([LogState(key(0), 15, 20)], {key(0): 12}, accept_gap=True)
    assert plan.ranges == ranges((0, 12, 20))
    assert plan.lost == ranges((0, 12, 15))
    assert readable(plan) == ranges((0, 15, 20))
    everything = plan_load([LogState(key(0), 20, 20)], {key(0): 12}, accept_gap=True)
    assert everything.ranges == everything.lost == ranges((0, 12, 20))
    assert readable(everything) == ()


def test_a_log_that_ends_before_the_table_is_a_problem_even_if_gaps_are_accepted() -> None:
    """Records that are appended there now have offsets that the table holds other rows of."""
    plan = plan_load([LogState(key(0), 0, 9)], {key(0): 12}, accept_gap=True)
    assert plan.ranges == ()
    assert "holds it up to offset 11, but its log ends at 8" in plan.problems[0].text


def test_where_a_partition_begins_that_the_table_does_not_know() -> None:
    since = LogState(key(0), 5, 20, begin=9)
    assert plan_load([since], {}).ranges == ranges((0, 9, 20))
    assert plan_load([since], {key(0): 6}).ranges == ranges((0, 6, 20)), "the table is asked first"


LOGS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.none() | st.integers(0, 60)),
    max_size=6,
)


@given(LOGS, st.booleans(), st.integers(0, 120), st.integers(1, 9), st.integers(1, 4))
def test_every_offset_is_loaded_lost_left_or_a_problem(
    made: list[tuple[int, int, int | None]], accept: bool, most: int, rows: int, tasks: int
) -> None:
    logs = [LogState(key(at), low, low + more) for at, (low, more, _) in enumerate(made)]
    loaded = {key(at): begin for at, (_, _, begin) in enumerate(made) if begin is not None}
    whole = plan_load(logs, loaded, accept_gap=accept)
    assert len(whole.ranges) == len({one.key for one in whole.ranges})
    for log in logs:
        start = loaded.get(log.key, log.earliest)
        mine = [one for one in whole.ranges if one.key == log.key]
        if any(problem.range.key == log.key for problem in whole.problems):
            assert start > log.end or (start < log.earliest and not accept)
            assert not mine
        else:
            assert sum(one.end - one.start for one in mine) == max(log.end, log.earliest) - start
    part = capped(whole, most)
    assert part.offsets == min(most, whole.offsets)
    assert part.left == whole.offsets - part.offsets
    starts = {one.key: one.start for one in whole.ranges}
    assert all(one.start == starts[one.key] for one in part.ranges)
    read = [n for one in readable(part) for n in range(one.start, one.end)]
    lost = [n for one in part.lost for n in range(one.start, one.end)]
    assert len(read) + len(lost) == part.offsets
    cut = shares(readable(part), rows, tasks)
    assert all(0 < one.end - one.start <= rows for one in cut)
    assert [n for one in cut for n in range(one.start, one.end)] == read


def test_short_partitions_are_finished_first() -> None:
    logs = [LogState(key(0), 0, 100), LogState(key(1), 0, 3), LogState(key(2), 0, 100)]
    part = capped(plan_load(logs, {}), 23)
    assert part.ranges == ranges((0, 0, 10), (1, 0, 3), (2, 0, 10))


@pytest.mark.parametrize(("rows", "tasks", "parts"), [(10**6, 8, 1), (7_000, 1, 3)])
def test_small_loads_are_not_cut_into_many_small_files(rows: int, tasks: int, parts: int) -> None:
    assert len(shares(ranges((0, 0, 15_000)), rows, tasks)) == parts
