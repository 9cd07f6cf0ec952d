"""What the formats and their libraries do by themselves, and what is done about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lake_rows import HOUR_US, PLACE, ROWS, append, held, key, load, once, tally

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import Change, CommittedTable
from tallymark_spark_jobs.lake.compaction import compact
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    Append,
    Conflict,
    DataFile,
    Manifest,
    OffsetRange,
    Refused,
)


def test_the_port_imports_no_table_format() -> None:
    """Tasks and short commands import it: 0.3 s and 40 MB each is what a format costs."""
    program = (
        "import sys; import tallymark_spark_jobs.lake.table, tallymark_spark_jobs.lake.tiling,"
        " tallymark_spark_jobs.lake.opening, tallymark_spark_jobs.lake.storage;"
        "print([name for name in ('deltalake', 'pyiceberg', 'pyarrow', 'sqlalchemy', 'pyspark')"
        " if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert told.stdout.strip() == b"[]"


class Died(BaseException):
    """The driver's end, in a test."""


def dies(table: CommittedTable[Any], monkeypatch: Any, *, after: bool) -> None:
    """The next commit of this object ends the process, before or after the version is made."""
    real = table.try_change

    def end(snapshot: Any, change: Change) -> None:
        if after:
            real(snapshot, change)
        raise Died

    monkeypatch.setattr(table, "try_change", end)


@pytest.mark.parametrize("after", [False, True])
def test_a_driver_that_dies_around_its_commit(lake: Lake, monkeypatch: Any, after: bool) -> None:
    """The next one begins where the table ends, whichever side of the commit that is."""
    dead = lake.table("dc1", "page-views")
    load(dead, 0, 10)
    dies(dead, monkeypatch, after=after)
    with pytest.raises(Died):
        load(dead, 0, 20)
    table = lake.table("dc1", "page-views")
    assert table.offsets(table.open())[key(0)] == (20 if after else 10)
    load(table, 0, 30)
    assert held(table.location, table.open()) == once((0, 0, 30))
    assert sum(commit.rows for commit in table.history()) == 30


def test_a_commit_whose_answer_was_lost_is_found_again(lake: Lake, monkeypatch: Any) -> None:
    """The connection broke after the version was made: it is not an error, and not made twice."""
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    real = table.try_change

    def lost(snapshot: Any, change: Change) -> None:
        real(snapshot, change)
        raise UserError("connection reset by peer")

    monkeypatch.setattr(table, "try_change", lost)
    snapshot = table.open()
    commit = table.commit(snapshot, append(table.location, OffsetRange(key(0), 10, 20), job="x"))
    assert (commit.job, commit.rows) == ("x", 10)
    assert held(table.location, table.open()) == once((0, 0, 20))


def test_a_commit_that_fails_for_another_reason_is_not_tried_again(
    lake: Lake, monkeypatch: Any
) -> None:
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    asked = []

    def refuse(snapshot: Any, change: Change) -> None:
        asked.append(change)
        raise UserError("permission denied")

    monkeypatch.setattr(table, "try_change", refuse)
    with pytest.raises(UserError, match="permission denied"):
        load(table, 0, 20)
    assert len(asked) == 1


def test_tallies_that_were_changed_are_refused(lake: Lake) -> None:
    table = lake.table("dc1", "page-views")
    span = OffsetRange(key(0), 0, 2_000)
    parts = tuple(tally(0, at, at + 1) for at in range(2_000))
    manifest = Manifest(span, quarantined=2_000, tallies=parts)
    table.commit(table.open(), Append("job", (span,), (manifest,), ROWS))
    (side,) = Path(table.location).glob("_tallymark/tallies/*")
    content = bytearray(side.read_bytes())
    (commit,) = table.history()
    assert len(commit.tallies) == 2_000
    content[len(content) // 2] ^= 1
    side.write_bytes(content)
    with pytest.raises(Refused, match="is not the file that was committed"):
        commit.detail()
    side.unlink()
    with pytest.raises(UserError, match=r"tallies/.*cannot be read"):
        commit.detail()


def test_a_head_of_a_newer_release_is_refused(lake: Lake, monkeypatch: Any) -> None:
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    (known,) = table.versions()
    newer = known._replace(head=json.dumps({**json.loads(known.head), "v": 2}))
    monkeypatch.setattr(table, "versions", lambda since=0: iter([newer]))
    with pytest.raises(Refused, match="written by a newer release"):
        list(table.history())


def test_versions_of_others_are_no_commits(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table = Lake(str(tmp_path)).table("dc1", "page-views")
    load(table, 0, 10)
    DeltaTable(table.location).alter.set_table_properties({"delta.appendOnly": "false"})
    load(table, 0, 20)
    assert [commit.rows for commit in table.history()] == [10, 10]


def test_iceberg_does_not_try_again_by_itself(tmp_path: Path) -> None:
    """pyiceberg's default puts the files of an overtaken writer on top: every row of them was in
    the table twice. The property that forbids it can be changed by anyone."""
    lake = Lake(str(tmp_path), "iceberg")
    one, other = lake.table("dc1", "page-views"), lake.table("dc1", "page-views")
    load(one, 0, 10)
    handle = one.open().handle
    assert handle.properties["commit.retry.num-retries"] == "0"
    with handle.transaction() as stranger:
        stranger.set_properties({"commit.retry.num-retries": "4"})
    mine, theirs = one.open(), other.open()
    span = OffsetRange(key(0), 10, 20)
    one.commit(mine, append(one.location, span))
    with pytest.raises(Conflict):
        other.commit(theirs, append(other.location, span))
    assert held(one.location, one.open()) == once((0, 0, 20))


def test_an_iceberg_table_that_was_rolled_back_is_not_loaded(tmp_path: Path) -> None:
    """Its offsets are newer than its rows: a load that began there would leave rows out."""
    table = Lake(str(tmp_path), "iceberg").table("dc1", "page-views")
    load(table, 0, 10)
    load(table, 0, 20)
    first = table.open().handle.metadata.snapshots[0].snapshot_id
    with table.open().handle.manage_snapshots() as roll:
        roll.rollback_to_snapshot(first)
    with pytest.raises(Refused, match="it was rolled back"):
        load(table, 0, 30)


def test_a_delta_table_that_was_restored_is_not_loaded(tmp_path: Path) -> None:
    """RESTORE brings the files of an older version back, and leaves application transactions as
    they are: rows of the versions in between would be left out for ever."""
    from deltalake import DeltaTable

    table = Lake(str(tmp_path)).table("dc1", "page-views")
    load(table, 0, 10)
    older = table.open().version
    load(table, 0, 20)
    loaded = table.open().version
    DeltaTable(table.location).restore(older)
    compact(table, 1 << 20, job="job", fewest=2)
    with pytest.raises(Refused, match=f"it was restored to version {older}"):
        load(table, 0, 30)
    DeltaTable(table.location).restore(loaded)
    load(table, 0, 30)
    assert held(table.location, table.open()) == once((0, 0, 30))


def test_delta_versions_have_their_own_numbers(tmp_path: Path) -> None:
    """``history()`` of a handle that is behind numbers every version wrongly; a commit that was
    made while the history was read then had the number of another one, and reports of it were
    taken for known."""
    from deltalake import DeltaTable

    table = Lake(str(tmp_path)).table("dc1", "page-views")
    for end in (10, 20, 30):
        load(table, 0, end)
    behind = DeltaTable(table.location, version=1)
    assert [told["version"] for told in behind.history()] == [1, 0, -1, -2]
    assert [one.version for one in table.history()] == [1, 2, 3]
    assert [one.version for one in table.history(3)] == [3]


def test_readers_can_skip_files(tmp_path: Path) -> None:
    """Both formats keep the bounds of columns that the tasks found."""
    delta = Lake(str(tmp_path / "d")).table("dc1", "page-views")
    load(delta, 0, 10)
    load(delta, 0, 20)
    rows = delta.open().handle.to_pyarrow_dataset().get_fragments()
    assert len([*rows]) == 4
    actions = delta.open().handle.get_add_actions(flatten=True)
    import pyarrow as pa

    told = pa.table(actions).select(["min.offset", "max.offset", "num_records"]).to_pylist()
    assert sorted(tuple(one.values()) for one in told) == [
        (0, 4, 5), (5, 9, 5), (10, 14, 5), (15, 19, 5),
    ]  # fmt: skip
    iceberg = Lake(str(tmp_path / "i"), "iceberg").table("dc1", "page-views")
    load(iceberg, 0, 10)
    load(iceberg, 0, 20)
    handle = iceberg.open().handle
    assert len(list(handle.scan(row_filter="offset >= 15").plan_files())) == 1
    assert len(list(handle.scan(row_filter="hour = '09'").plan_files())) == 0
    found = handle.scan(row_filter="hour = '08' and offset < 3").to_arrow()
    assert found.column("topic").to_pylist() == ["page-views"] * 3
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [HOUR_US + n for n in range(3)]


def test_an_iceberg_lake_in_an_object_store_needs_a_catalogue() -> None:
    table = Lake("s3://bucket/lake", "iceberg").table("dc1", "page-views")
    with pytest.raises(UserError, match="need a catalogue"):
        table.open()


def test_iceberg_forgets_old_snapshots_and_no_rows(tmp_path: Path, monkeypatch: Any) -> None:
    """Each version of the metadata lists all snapshots: with a load a minute it would grow by two
    megabytes a day."""
    table = Lake(str(tmp_path), "iceberg").table("dc1", "page-views")
    for end in (10, 20, 30):
        load(table, 0, end)
    assert table.forget(1) == 0
    assert len(list(table.history())) == 3
    assert table.forget(0) == 2
    assert [commit.rows for commit in table.history()] == [10]
    assert table.offsets(table.open())[key(0)] == 30
    assert held(table.location, table.open()) == once((0, 0, 30))
    load(table, 0, 40)
    assert held(table.location, table.open()) == once((0, 0, 40))


def test_iceberg_joins_its_manifests(tmp_path: Path) -> None:
    """A manifest a commit: a table that is loaded every hour had 8,760 of them after a year, and
    every reader read them all."""
    table = Lake(str(tmp_path), "iceberg").table("dc1", "page-views")
    load(table, 0, 1)
    with table.open().handle.transaction() as change:  # 100 by default
        change.set_properties({"commit.manifest.min-count-to-merge": "5"})
    for end in range(2, 14):
        span = OffsetRange(key(0), end - 1, end)
        file = DataFile(f"{PLACE.folder}/{end}.parquet", PLACE, 1, 100)
        table.commit(table.open(), Append("job", (span,), (Manifest(span, (file,), 1),), ROWS))
    handle = table.open().handle
    assert len(handle.current_snapshot().manifests(handle.io)) <= 5
    assert len(list(table.open().files())) == 13


def test_options_of_object_stores_have_the_names_of_their_own_tools() -> None:
    from pyarrow import fs

    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x"}
    options |= {"AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "eu-central-1"}
    storage = Storage("s3://bucket/lake/dc1/page-views", options)
    found, root = storage.open()
    assert isinstance(found, fs.S3FileSystem)
    assert (found.region, root) == ("eu-central-1", "bucket/lake/dc1/page-views")
    assert storage.address("a.parquet") == "s3://bucket/lake/dc1/page-views/a.parquet"
    with pytest.raises(UserError, match="nowhere://x: cannot be used as a lake"):
        Storage("nowhere://x", {}).open()


@pytest.mark.parametrize("missing", ["pyarrow", "the format"])
def test_a_format_that_is_not_installed_is_said(lake: Lake, monkeypatch: Any, missing: str) -> None:
    """It was "unexpected ModuleNotFoundError ... this is a bug"."""
    extra, package = {"delta": ("lake", "deltalake"), "iceberg": ("iceberg", "pyiceberg")}[
        lake.format
    ]
    name = missing if missing == "pyarrow" else package
    monkeypatch.setitem(sys.modules, name, None)
    for ask in (lake.tables, lambda: lake.table("dc1", "page-views")):
        with pytest.raises(UserError, match=f"{lake.format} need the package {name}") as error:
            ask()
        assert f"pip install 'tallymark[{extra}]'" in str(error.value)
