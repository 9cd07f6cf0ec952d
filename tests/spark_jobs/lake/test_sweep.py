"""Files that no version names are taken away, once they are old; and no others."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lake_rows import PLACE, ROWS, append, files_on_disk, held, key, land, load, once, tally

from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.lake.compaction import compact
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.sweep import sweep
from tallymark_spark_jobs.lake.table import SIDE_FOLDER, Append, OffsetRange

HOUR_MS = 3_600_000


def aged(location: str, hours: float = 200, only: str = "**/*.parquet") -> None:
    then = time.time() - hours * 3600
    for path in Path(location).glob(only):
        os.utime(path, (then, then))


def on_disk(location: str) -> set[str]:
    side = Path(location, SIDE_FOLDER)
    return files_on_disk(location) | {
        str(path.relative_to(location)) for path in side.rglob("*") if path.is_file()
    }


def with_everything(lake: Lake) -> CommittedTable[Any]:
    """Loads with inline tallies, with tallies in a file, and with a quarantine."""
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    span = OffsetRange(key(1), 0, 2_000)
    parts = tuple(tally(1, at, at + 1) for at in range(2_000))
    quarantine = f"{SIDE_FOLDER}/quarantine/one.parquet"
    table.storage.write(quarantine, b"poison")
    landed = replace(land(table.location, span, tallies=parts), side_files=(quarantine,))
    table.commit(table.open(), Append("job", (span,), (landed,), ROWS))
    return table


@pytest.mark.slow
def test_orphans_are_swept_and_nothing_that_is_named(lake: Lake) -> None:
    table = with_everything(lake)
    named = on_disk(table.location)
    land(table.location, OffsetRange(key(0), 10, 20))
    dead = on_disk(table.location) - named
    sides = {f"{SIDE_FOLDER}/tallies/dead.parquet", f"{SIDE_FOLDER}/quarantine/dead.parquet"}
    aged(table.location)
    # As old as a file of a running system may be, and still younger than the table's history.
    for side in sides:
        table.storage.write(side, b"dead")
    time.sleep(0.05)
    assert sweep(table).files == tuple(sorted(dead))
    assert sweep(table, 0).files == tuple(sorted(sides))
    assert on_disk(table.location) == named
    newest = table.open()
    assert held(table.location, newest) == once((0, 0, 10), (1, 0, 2_000))
    assert len(list(table.history())[-1].tallies) == 2_000


def test_nothing_young_is_swept(lake: Lake) -> None:
    """A load has landed its files and has not committed yet; the sweep runs, then the load goes
    on."""
    table = with_everything(lake)
    snapshot = table.open()
    landed = append(table.location, OffsetRange(key(0), 10, 20))
    assert sweep(table).files == ()
    table.commit(snapshot, landed)
    assert held(table.location, table.open()) == once((0, 0, 20), (1, 0, 2_000))


def test_a_dry_run_deletes_nothing(lake: Lake) -> None:
    table = with_everything(lake)
    land(table.location, OffsetRange(key(0), 10, 20))
    aged(table.location)
    before = on_disk(table.location)
    swept = sweep(table, dry_run=True)
    assert len(swept.files) == 1
    assert swept.bytes > 0
    assert on_disk(table.location) == before


def test_older_versions_can_be_read_for_the_grace(lake: Lake) -> None:
    """A reader took its list of files before the compaction: they are old, but not without a name
    for long."""
    table = with_everything(lake)
    load(table, 0, 20)
    load(table, 0, 30)
    old = table.open()
    assert compact(table, 1 << 20, job="job").files_before == 7
    aged(table.location, only="topic=*/**/*.parquet")
    assert sweep(table).files == ()
    assert held(table.location, old) == once((0, 0, 30), (1, 0, 2_000))


def test_a_table_that_is_not_there_yet_is_left_alone(lake: Lake) -> None:
    """Its first load has landed files, for as long as it likes."""
    table = lake.table("dc1", "page-views")
    land(table.location, OffsetRange(key(0), 0, 10))
    aged(table.location)
    assert sweep(table).files == ()
    assert len(files_on_disk(table.location)) == 1


def test_side_files_from_before_the_history_stay(lake: Lake, monkeypatch: Any) -> None:
    """The log of a table is cut after a year: which files its forgotten versions named is not known
    any more."""
    table = with_everything(lake)
    table.storage.write(f"{SIDE_FOLDER}/tallies/of-a-forgotten-version.parquet", b"")
    aged(table.location, only=f"{SIDE_FOLDER}/**/*")
    load(table, 0, 20)
    newest = list(table.heads())[-1:]
    monkeypatch.setattr(table, "heads", lambda: iter(newest))
    assert sweep(table, 0).files == ()


def test_the_place_of_a_file_is_its_folder() -> None:
    assert PLACE.folder == "topic=page-views/date=2026-01-31/hour=08"
