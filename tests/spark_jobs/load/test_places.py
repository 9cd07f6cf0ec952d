"""Hours, folders and lateness; and how a run's name says as of when a table was complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_spark_jobs.lake.memory import MemoryTable
from tallymark_spark_jobs.lake.table import Append, Manifest, OffsetRange, PartitionKey
from tallymark_spark_jobs.load.names import complete_as_of, loaded_as_of, part_of, run_name
from tallymark_spark_jobs.load.writing.places import first_on_time, hour_of, place_of

DAY = 1_769_817_600_000  # 2026-01-31
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("timestamp", "folder"),
    [
        (DAY, "topic=t/date=2026-01-31/hour=00"),
        (DAY - 1, "topic=t/date=2026-01-30/hour=23"),
        (DAY + 8 * HOUR + 17, "topic=t/date=2026-01-31/hour=08"),
        (-1, "topic=t/date=1970-01-01/hour=00"),
        (-(1 << 63), "topic=t/date=1970-01-01/hour=00"),
        ((1 << 63) - 1, "topic=t/date=9999-12-31/hour=23"),
    ],
)
def test_the_folder_of_a_time(timestamp: int, folder: str) -> None:
    """Times that are no date ended the load of a whole topic; hours without their zero were
    another folder than those that Spark writes."""
    assert place_of("t", hour_of(timestamp)).folder == folder


@given(st.integers(0, DAY), st.integers(0, 48 * HOUR))
def test_a_row_is_late_if_its_hour_had_ended_so_long_before(loaded: int, late_after: int) -> None:
    first = first_on_time(loaded, late_after)
    assert first * HOUR <= max(0, loaded - late_after)  # this hour had not ended then
    assert (first + 1) * HOUR > loaded - late_after


def test_nothing_is_late_in_the_first_load() -> None:
    assert hour_of(0) >= first_on_time(None, HOUR)


def test_the_history_says_when_a_table_was_complete() -> None:
    """Rows of a back-fill that was made in parts were all called late, as if the first part had
    brought everything."""
    table = MemoryTable()
    key = PartitionKey("c", "i", "t", 0)
    names = [run_name(1_000), part_of(run_name(2_000)), "compact", part_of(run_name(3_000))]
    for at, name in enumerate(names):
        span = OffsetRange(key, at, at + 1)
        table.commit(table.open(), Append(name, (span,), (Manifest(span, gaps=1),)))
    assert [complete_as_of(name) for name in names] == [1_000, None, None, None]
    assert loaded_as_of(table, 3) == 1_000
    assert loaded_as_of(table, -1) is None
    for at in range(4, 60):
        span = OffsetRange(key, at, at + 1)
        run = part_of(run_name(at)) if at > 30 else run_name(at)
        table.commit(table.open(), Append(run, (span,), (Manifest(span, gaps=1),)))
    assert loaded_as_of(table, 59) == 30
    assert loaded_as_of(table, 25) == 25
