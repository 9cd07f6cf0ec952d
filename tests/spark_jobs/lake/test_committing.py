"""Exactly once, whoever commits when: the same for both formats and for the double."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from lake_rows import HOUR_US, PLACE, ROWS, append, held, key, land, load, once, tally

from tallymark_spark_jobs.lake.table import (
    NO_VERSION,
    Append,
    Conflict,
    LakeTable,
    Manifest,
    OffsetRange,
    Refused,
)

Tables = Callable[[], LakeTable]


def test_a_table_is_made_by_its_first_commit(tables: Tables) -> None:
    table = tables()
    empty = table.open()
    assert empty.version == NO_VERSION
    assert list(empty.files()) == []
    assert dict(table.offsets(empty)) == {}
    assert list(table.history()) == []
    load(table, 0, 10)
    snapshot = tables().open()
    assert snapshot.version > NO_VERSION
    assert held(table.location, snapshot) == once((0, 0, 10))
    assert dict(table.offsets(snapshot)) == {key(0): 10}
    assert table.offsets(snapshot).get(key(1)) is None
    assert snapshot.schema().names == [*ROWS.names, "topic", "date", "hour"]


def test_a_snapshot_does_not_change(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    before = table.open()
    load(tables(), 0, 20)
    assert held(table.location, before) == once((0, 0, 10))
    assert table.offsets(before)[key(0)] == 10


def test_the_second_of_two_on_one_partition_is_refused(tables: Tables) -> None:
    """Both read the same offset, both have landed their files, both commit."""
    one, other = tables(), tables()
    load(one, 0, 10)
    mine, theirs = one.open(), other.open()
    span = OffsetRange(key(0), 10, 20)
    one.commit(mine, append(one.location, span, job="one"))
    with pytest.raises(Conflict, match="loaded up to offset 20, this load began at 10"):
        other.commit(theirs, append(other.location, span, job="other"))
    assert held(one.location, tables().open()) == once((0, 0, 20))
    assert [commit.job for commit in one.history()][-1] == "one"


def test_the_second_of_two_that_make_the_table_is_refused(tables: Tables) -> None:
    one, other = tables(), tables()
    mine, theirs = one.open(), other.open()
    span = OffsetRange(key(0), 0, 10)
    one.commit(mine, append(one.location, span))
    with pytest.raises(Conflict):
        other.commit(theirs, append(other.location, span))
    assert held(one.location, tables().open()) == once((0, 0, 10))


def test_two_on_different_partitions_both_pass(tables: Tables) -> None:
    one, other = tables(), tables()
    mine, theirs = one.open(), other.open()
    one.commit(mine, append(one.location, OffsetRange(key(0), 0, 10)))
    other.commit(theirs, append(other.location, OffsetRange(key(1), 5, 9)))
    newest = tables().open()
    assert held(one.location, newest) == once((0, 0, 10), (1, 5, 9))
    assert dict(one.offsets(newest)) == {key(0): 10, key(1): 9}


def test_a_writer_that_slept_for_many_versions_is_refused(tables: Tables) -> None:
    """It wakes with its old snapshot and with files that were right once. What it has of the same
    partition is there already; a partition that did not move in between it may still load."""
    zombie = tables()
    load(zombie, 0, 10)
    old = zombie.open()
    for end in (20, 30, 40):
        load(tables(), 0, end)
    with pytest.raises(Conflict):
        zombie.commit(old, append(zombie.location, OffsetRange(key(0), 10, 20)))
    zombie.commit(old, append(zombie.location, OffsetRange(key(1), 0, 5)))
    assert held(zombie.location, tables().open()) == once((0, 0, 40), (1, 0, 5))


def test_a_load_that_is_repeated_with_a_fresh_handle_is_refused(tables: Tables) -> None:
    """Delta accepts an application transaction of the same number again, if the snapshot is new."""
    table = tables()
    span = OffsetRange(key(0), 0, 10)
    same = append(table.location, span)
    table.commit(table.open(), same)
    again = tables()
    with pytest.raises(Conflict):
        again.commit(again.open(), same)
    with pytest.raises(Conflict):
        again.commit(again.open(), append(table.location, span))
    assert held(table.location, tables().open()) == once((0, 0, 10))


def test_one_stale_partition_of_many_refuses_all(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    snapshot = table.open()
    stale = append(table.location, OffsetRange(key(0), 5, 10), OffsetRange(key(1), 0, 10))
    with pytest.raises(Conflict):
        table.commit(snapshot, stale)
    assert held(table.location, tables().open()) == once((0, 0, 10))


def test_a_topic_that_is_made_anew_begins_at_its_own_beginning(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    anew = OffsetRange(key(0, "another-id"), 0, 4)
    table.commit(table.open(), append(table.location, anew))
    newest = table.open()
    assert dict(table.offsets(newest)) == {key(0): 10, key(0, "another-id"): 4}
    assert sum(held(table.location, newest).values()) == 14


def test_manifests_that_do_not_tile_the_plan_change_nothing(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    before = table.open().version
    whole = append(table.location, OffsetRange(key(0), 10, 20))
    with pytest.raises(Refused, match="no task returned offsets 15 to 19"):
        table.commit(table.open(), replace(whole, manifests=whole.manifests[:1]))
    assert table.open().version == before


def test_a_commit_without_rows_moves_the_offset(tables: Tables) -> None:
    """Only control records, or all of it expired: there is no file, but the next load has to begin
    behind it."""
    table = tables()
    load(table, 0, 10)
    span = OffsetRange(key(0), 10, 20)
    table.commit(table.open(), Append("job", (span,), (Manifest(span, gaps=7, expired=3),)))
    newest = table.open()
    assert table.offsets(newest)[key(0)] == 20
    commit = list(table.history())[-1]
    assert (commit.rows, commit.gaps, commit.expired) == (0, 7, 3)
    assert commit.detail().expired == (span,)


def test_the_history_says_what_was_loaded(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10, job="first", late=2)
    load(table, 0, 25, job="second")
    first, second = tables().history()
    assert (first.operation, first.job, first.rows, first.late) == ("load", "first", 10, 4)
    assert first.ranges == (OffsetRange(key(0), 0, 10),)
    assert first.tallies == (tally(0, 0, 5), tally(0, 5, 10))
    assert second.ranges == (OffsetRange(key(0), 10, 25),)
    assert second.version > first.version
    assert second.at_ms >= first.at_ms > HOUR_US // 1000
    assert [one.job for one in table.history(first.version + 1)] == ["second"]
    assert list(table.history(second.version + 1)) == []


def test_many_tallies_are_kept_whole(tables: Tables) -> None:
    table = tables()
    parts = tuple(tally(0, at, at + 1) for at in range(2_000))
    span = OffsetRange(key(0), 0, 2_000)
    manifest = land(table.location, span, tallies=parts)
    manifest = replace(manifest, side_files=("_tallymark/quarantine/x.parquet",))
    table.commit(table.open(), Append("job", (span,), (manifest,), ROWS))
    (commit,) = tables().history()
    assert commit.tallies == parts
    assert commit.ranges == (span,)
    assert commit.detail().side_files == ("_tallymark/quarantine/x.parquet",)


def test_columns_may_be_added_and_left_out(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    wider = pa.schema([*ROWS, pa.field("user", pa.string())])
    load(table, 0, 20, schema=wider)
    load(table, 0, 30)
    newest = table.open()
    assert newest.schema().names == [*wider.names, "topic", "date", "hour"]
    assert held(table.location, newest) == once((0, 0, 30))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (ROWS.set(0, pa.field("partition", pa.string())), "partition is int32 in the table"),
        (pa.schema([*ROWS, pa.field("hour", pa.string())]), "hour is one that the table's folders"),
        (pa.schema([*ROWS, pa.field("Offset", pa.int64())]), "upper and lower case"),
    ],
)
def test_columns_that_cannot_be_are_refused_with_the_reason(
    tables: Tables, schema: pa.Schema, said: str
) -> None:
    table = tables()
    load(table, 0, 10)
    before = table.open()
    landed = append(table.location, OffsetRange(key(0), 10, 20))
    with pytest.raises(Refused, match=said):
        table.commit(before, replace(landed, schema=schema))
    assert table.open().version == before.version


def test_two_that_add_the_same_column_both_pass(tables: Tables) -> None:
    one, other = tables(), tables()
    load(one, 0, 10)
    mine, theirs = one.open(), other.open()
    wider = pa.schema([*ROWS, pa.field("user", pa.string())])
    one.commit(mine, append(one.location, OffsetRange(key(1), 0, 5), schema=wider))
    other.commit(theirs, append(other.location, OffsetRange(key(2), 0, 5), schema=wider))
    newest = tables().open()
    assert newest.schema().names.count("user") == 1
    assert held(one.location, newest) == once((0, 0, 10), (1, 0, 5), (2, 0, 5))


def test_two_that_add_one_column_with_two_types_are_one_refusal(tables: Tables) -> None:
    one, other = tables(), tables()
    load(one, 0, 10)
    mine, theirs = one.open(), other.open()
    texts = pa.schema([*ROWS, pa.field("user", pa.string())])
    numbers = pa.schema([*ROWS, pa.field("user", pa.int64())])
    one.commit(mine, append(one.location, OffsetRange(key(1), 0, 5), schema=texts))
    with pytest.raises(Refused, match="user is string in the table and int64 in the rows"):
        other.commit(theirs, append(other.location, OffsetRange(key(2), 0, 5), schema=numbers))
    assert held(one.location, tables().open()) == once((0, 0, 10), (1, 0, 5))


def test_a_repair_loads_below_the_offset_and_leaves_it_alone(tables: Tables) -> None:
    table = tables()
    load(table, 0, 20)
    missing = append(table.location, OffsetRange(key(0), 5, 8))
    table.commit(table.open(), replace(missing, repair=True))
    newest = table.open()
    assert table.offsets(newest)[key(0)] == 20
    assert list(table.history())[-1].operation == "repair"
    above = append(table.location, OffsetRange(key(0), 18, 21))
    with pytest.raises(Refused, match="load the rest first"):
        table.commit(newest, replace(above, repair=True))


def test_the_second_of_two_repairs_is_refused(tables: Tables) -> None:
    """Both have seen that the same rows are missing."""
    one, other = tables(), tables()
    load(one, 0, 20)
    mine, theirs = one.open(), other.open()
    missing = append(one.location, OffsetRange(key(0), 5, 8))
    one.commit(mine, replace(missing, repair=True))
    again = append(one.location, OffsetRange(key(0), 7, 9))
    with pytest.raises(Conflict, match="has repaired these offsets"):
        other.commit(theirs, replace(again, repair=True))
    load(other, 0, 30)


@pytest.mark.slow
def test_all_partitions_of_a_large_topic_are_one_commit(tables: Tables) -> None:
    table = tables()
    spans = tuple(OffsetRange(key(number), 0, number + 1) for number in range(2_000))
    manifests = tuple(Manifest(span, gaps=span.end) for span in spans)
    table.commit(table.open(), Append("job", spans, manifests, ROWS))
    newest = tables().open()
    assert table.offsets(newest)[key(1_999)] == 2_000
    assert len(table.offsets(newest)) == 2_000
    (commit,) = table.history()
    assert commit.ranges == spans


def test_a_file_belongs_to_the_place_it_says(tables: Tables) -> None:
    table = tables()
    load(table, 0, 10)
    for file in table.open().files():
        assert file.place == PLACE
        assert file.path.startswith("topic=page-views/date=2026-01-31/hour=08/")
