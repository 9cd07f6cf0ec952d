"""Small files are joined; rows, offsets and tallies stay, and loads beside it pass."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lake_rows import PLACE, ROWS, append, files_on_disk, held, key, load, once

from tallymark.errors import UserError
from tallymark_spark_jobs.lake import committing, compaction
from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.lake.compaction import compact, joins
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.table import Conflict, DataFile, OffsetRange, Place

TARGET = 1 << 20


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200)), max_size=30),
    st.integers(10, 100),
    st.integers(2, 5),
)
def test_files_are_joined_once_and_within_their_hour(
    sizes: list[tuple[int, int]], target: int, fewest: int
) -> None:
    files = [
        DataFile(f"{number}.parquet", Place("t", "2026-01-31", f"0{hour}"), 1, size)
        for number, (hour, size) in enumerate(sizes)
    ]
    joined = [file.path for group in joins(files, target, fewest) for file in group]
    assert len(joined) == len(set(joined))
    for group in joins(files, target, fewest):
        assert len({file.place for file in group}) == 1
        assert all(file.bytes * 4 < target * 3 for file in group)
        assert sum(file.bytes for file in group[:-1]) < target
        assert len(group) >= 2


def test_a_table_of_large_files_is_left_alone() -> None:
    files = [DataFile(f"{number}.parquet", PLACE, 1, 80) for number in range(10)]
    assert list(joins(files, 100)) == []


def small_files(lake: Lake) -> CommittedTable[Any]:
    """Ten files of an hour, of three partitions, with another schema from the middle on."""
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    load(table, 1, 20)
    wider = pa.schema([*ROWS, pa.field("user", pa.string())])
    load(table, 0, 30, schema=wider)
    load(table, 1, 40)
    load(table, 2, 5, schema=wider)
    return table


def test_rows_offsets_and_tallies_stay(lake: Lake) -> None:
    table = small_files(lake)
    before = table.open()
    loads = [(commit.version, commit.ranges, commit.tallies) for commit in table.history()]
    done = compact(table, TARGET, job="compaction-1")
    assert (done.files_before, done.files_after, done.given_up) == (10, 1, 0)
    after = lake.table("dc1", "page-views").open()
    assert held(table.location, after) == held(table.location, before)
    assert held(table.location, after) == once((0, 0, 30), (1, 0, 40), (2, 0, 5))
    (file,) = after.files()
    assert (file.place, file.rows, file.bytes) == (PLACE, 75, done.bytes_after)
    assert dict(table.offsets(after)) == {key(0): 30, key(1): 40, key(2): 5}
    history = list(table.history())
    assert [(one.version, one.ranges, one.tallies) for one in history[:-1]] == loads
    assert (history[-1].operation, history[-1].job) == ("compact", "compaction-1")
    assert (history[-1].rows, history[-1].ranges) == (0, ())
    load(table, 0, 33)
    assert compact(table, TARGET, job="again") == compaction.Compacted()


def test_columns_that_a_file_lacks_are_null(lake: Lake) -> None:
    table = small_files(lake)
    compact(table, TARGET, job="job")
    (file,) = table.open().files()
    rows = pq.ParquetFile(f"{table.location}/{file.path}").read()
    assert rows.schema.names == [*ROWS.names, "user"]
    assert rows.column("user").null_count == rows.num_rows


def test_loads_beside_it_pass_and_so_does_it(lake: Lake, monkeypatch: Any) -> None:
    """Two loads are committed between its reading and its commit, one with an older snapshot than
    the compaction's commit."""
    table, loader, zombie = (
        small_files(lake),
        lake.table("dc1", "page-views"),
        lake.table("dc1", "page-views"),
    )
    old = zombie.open()
    rewritten = compaction.rewritten

    def load_in_between(*args: Any) -> DataFile:
        load(loader, 0, 50)
        return rewritten(*args)

    monkeypatch.setattr(compaction, "rewritten", load_in_between)
    done = compact(table, TARGET, job="job")
    assert (done.files_before, done.given_up) == (10, 0)
    zombie.commit(old, append(zombie.location, OffsetRange(key(1), 40, 60)))
    newest = table.open()
    assert held(table.location, newest) == once((0, 0, 50), (1, 0, 60), (2, 0, 5))
    assert dict(table.offsets(newest)) == {key(0): 50, key(1): 60, key(2): 5}


def test_the_slower_of_two_compactions_gives_up(lake: Lake, monkeypatch: Any) -> None:
    """Both would put the same rows into a new file: without a look at the old ones the table would
    have them twice."""
    table, other = small_files(lake), lake.table("dc1", "page-views")
    rewritten = compaction.rewritten
    inner: list[compaction.Compacted] = []

    def join_in_between(*args: Any) -> DataFile:
        made = rewritten(*args)
        monkeypatch.setattr(compaction, "rewritten", rewritten)
        inner.append(compact(other, TARGET, job="faster"))
        return made

    monkeypatch.setattr(compaction, "rewritten", join_in_between)
    outer = compact(table, TARGET, job="slower")
    assert (inner[0].files_before, inner[0].given_up) == (10, 0)
    assert (outer.files_before, outer.given_up) == (0, 10)
    newest = table.open()
    assert held(table.location, newest) == once((0, 0, 30), (1, 0, 40), (2, 0, 5))
    joined = {path for path in files_on_disk(table.location) if "joined-" in path}
    assert joined == {file.path for file in newest.files()}


@pytest.mark.slow
def test_a_compaction_that_is_never_fast_enough_gives_up(lake: Lake, monkeypatch: Any) -> None:
    """Loads that commit without a pause: a compaction ended with an error, and left its files."""
    table = small_files(lake)

    def overtaken(*_: Any) -> None:
        raise committing.Raced

    monkeypatch.setattr(table, "try_change", overtaken)
    assert compact(table, TARGET, job="job").given_up == 10
    assert not any("joined-" in path for path in files_on_disk(table.location))
    assert held(table.location, table.open()) == once((0, 0, 30), (1, 0, 40), (2, 0, 5))


def test_a_file_with_other_rows_than_the_table_says_is_not_joined(lake: Lake) -> None:
    table = small_files(lake)
    broken = next(iter(table.open().files()))
    rows = pq.ParquetFile(f"{table.location}/{broken.path}").read()
    pq.write_table(rows.slice(1), f"{table.location}/{broken.path}")
    before = table.open().version
    with pytest.raises(UserError, match="hold 74 rows, the table says 75"):
        compact(table, TARGET, job="job")
    assert table.open().version == before
    assert not any("joined-" in path for path in files_on_disk(table.location))


@pytest.mark.slow
def test_loads_and_compactions_at_once_lose_and_repeat_nothing(lake: Lake) -> None:
    """Four loaders, two of them on the same partition, and a compaction, all at once."""
    failed: list[BaseException] = []
    refused: list[int] = []

    def loader(partition: int) -> None:
        table = lake.table("dc1", "page-views")
        for _ in range(8):
            snapshot = table.open()
            start = table.offsets(snapshot).get(key(partition), 0)
            span = OffsetRange(key(partition), start, start + 5)
            try:
                table.commit(snapshot, append(table.location, span))
            except Conflict:
                refused.append(partition)

    def compactor() -> None:
        for _ in range(4):
            compact(lake.table("dc1", "page-views"), TARGET, job="job", fewest=2)

    def guarded(work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)

    work = [(loader, 0), (loader, 1), (loader, 2), (loader, 2), (compactor,)]
    threads = [threading.Thread(target=guarded, args=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert set(refused) <= {2}
    table = lake.table("dc1", "page-views")
    newest = table.open()
    ends = {each.partition: end for each, end in table.offsets(newest).items()}
    assert (ends[0], ends[1]) == (40, 40)
    assert ends[2] == 5 * (16 - len(refused))
    assert held(table.location, newest) == once(*((part, 0, end) for part, end in ends.items()))
    loaded = [one.rows for one in table.history() if one.operation == "load"]
    assert sum(loaded) == sum(ends.values())
