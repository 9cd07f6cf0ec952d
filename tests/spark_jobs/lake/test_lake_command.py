"""``tallymark lake`` on tables of both formats."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lake_rows import PLACE, append, held, key, land, load, once

from tallymark.errors import UserError
from tallymark_spark_jobs.cli.lake import lake as command
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.table import OffsetRange, Place

NEXT = Place("page-views", "2026-01-31", "09")


@pytest.fixture
def settings(lake: Lake, tmp_path: Path) -> str:
    path = tmp_path / "settings.toml"
    path.write_text(f'[lake]\npath = "{lake.path}"\nformat = "{lake.format}"\n')
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_what_is_in_the_lake(lake: Lake, settings: str) -> None:
    views, clicks = lake.table("dc1", "page-views"), lake.table("dc2", "clicks")
    load(views, 0, 10, job="nightly", late=1)
    load(views, 0, 30, place=NEXT)
    load(clicks, 0, 5)
    shown = run("tables", "--settings", settings).output.splitlines()
    assert [line.split(",")[0].split(":")[0] for line in shown] == ["dc1/page-views", "dc2/clicks"]
    assert "30 rows in 4 files" in shown[0]
    (one,) = run("tables", "--settings", settings, "-t", "clicks", "--json").output.splitlines()
    assert json.loads(one)["rows"] == 5
    told = run("history", "--settings", settings, "--cluster", "dc1").output.splitlines()
    assert "load, 10 rows of 1 partitions, 2 late (nightly)" in told[0]
    (last,) = run(
        "history", "--settings", settings, "--cluster", "dc1", "--json",
        "--since", str(views.open().version),
    ).output.splitlines()  # fmt: skip
    assert json.loads(last)["ranges"] == [
        {"topic": "page-views", "partition": 0, "start": 10, "end": 30}
    ]
    paths = run("files", "--settings", settings, "--cluster", "dc1", "--hour", "08").output
    assert sorted(paths.split()) == sorted(
        f"{views.location}/{file.path}" for file in views.open().files() if file.place == PLACE
    )


def test_days_and_hours_of_files_are_what_they_are_called(lake: Lake, settings: str) -> None:
    """``tallymark lake files --hour 8`` listed nothing, ``--hour 08`` did; so did ``--date
    31.1.2026``: a program that reads these files read none of them, and did not notice."""
    load(lake.table("dc1", "page-views"), 0, 10)

    def found(*words: str) -> list[str]:
        return run("files", "--settings", settings, *words).output.splitlines()

    assert found("--hour", "8") == found("--hour", "08") == found("--date", "2026-01-31") != []
    assert found("--hour", "9") == found("--date", "2026-02-01") == []
    for wrong in (("--hour", "24"), ("--hour", "eight"), ("--date", "31.1.2026")):
        assert run("files", "--settings", settings, *wrong).exit_code == 2


def test_upkeep(lake: Lake, settings: str) -> None:
    table = lake.table("dc1", "page-views")
    load(table, 0, 10)
    load(table, 0, 20)
    dead = land(table.location, OffsetRange(key(0), 20, 30)).files[0].path
    assert "4 files became 1" in run("compact", "--settings", settings).output
    long_ago = time.time() - 200 * 3600
    for path in Path(table.location).rglob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    assert "1 files would be deleted" in run("sweep", "--settings", settings, "--dry-run").output
    assert Path(table.location, dead).exists()
    (told,) = run("sweep", "--settings", settings, "--json").output.splitlines()
    assert json.loads(told)["files"] == [dead]
    assert not Path(table.location, dead).exists()
    assert held(table.location, table.open()) == once((0, 0, 20))
    table.commit(table.open(), append(table.location, OffsetRange(key(0), 20, 30)))


def test_what_is_not_there(lake: Lake, settings: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no table yet"):
        run("tables", "--settings", settings)
    load(lake.table("dc1", "page-views"), 0, 10)
    with pytest.raises(UserError, match="there is no table of dc1/clicks yet"):
        run("sweep", "--settings", settings, "--cluster", "dc1", "-t", "clicks")
    bare = tmp_path / "bare.toml"
    bare.write_text("")
    with pytest.raises(UserError, match="the settings have no lake"):
        run("tables", "--settings", str(bare))
