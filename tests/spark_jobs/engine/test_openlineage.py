"""What lineage tools hear of a load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lineage import assert_openlineage, catalogue

from tallymark_spark_jobs.engine.openlineage import LoadedTable, named, run_event, send

TABLE = LoadedTable("kafka:9092", "clicks", "/lake/aggregate/clicks", 7, 900, 2, version=4)
IDLE = LoadedTable("kafka:9092", "idle", "s3://bucket/lake/idle", 0, 0, 0, version=None)
SHORT = LoadedTable("kafka:9092", "short", "/lake/short", 1, 9, 1, 1, ("short-0: expired",))


def event(*tables: LoadedTable) -> dict[str, Any]:
    return run_event("tallymark-load", "run-1", 1_767_225_600_123, "local", tables)


def test_rows_and_completeness() -> None:
    told = event(TABLE, IDLE, SHORT)
    assert told["eventTime"] == "2026-01-01T00:00:00.123+00:00"
    assert [each["name"] for each in told["inputs"]] == ["clicks", "idle", "short"]
    assert [each["name"] for each in told["outputs"]] == ["/lake/aggregate/clicks", "/lake/short"]
    statistics = told["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (7, 900, 2)
    assert told["outputs"][0]["facets"]["version"]["datasetVersion"] == "4"
    complete = [
        each["inputFacets"]["dataQualityAssertions"]["assertions"][0]["success"]
        for each in told["inputs"]
    ]
    assert complete == [True, True, False]
    assert event(TABLE)["run"] == event(IDLE)["run"], "the same run has the same id"


def test_places() -> None:
    assert named("/lake/my table") == ("file", "/lake/my table")
    assert named("file:///lake/my%20table") == ("file", "/lake/my table")
    assert named("s3://bucket/lake/idle") == ("s3://bucket", "lake/idle")


def test_the_classes_of_openlineage_take_it() -> None:
    assert_openlineage(event(TABLE, SHORT))


def test_a_catalogue_gets_it_by_the_variables_of_openlineage() -> None:
    with catalogue(201) as (url, asked):
        assert send(event(TABLE), {"OPENLINEAGE_URL": url, "OPENLINEAGE_API_KEY": "k"}) is None
        off = {"OPENLINEAGE_URL": url, "OPENLINEAGE_DISABLED": "true"}
        assert send(event(TABLE), off) is None
        assert send(event(TABLE), {}) is None
    assert asked == [("/api/v1/lineage", "Bearer k", event(TABLE))]


def test_a_catalogue_that_refuses_or_is_away_fails_nothing() -> None:
    with catalogue(500) as (url, _):
        assert "500" in str(send(event(TABLE), {"OPENLINEAGE_URL": url}))
    assert "not taken" in str(send(event(TABLE), {"OPENLINEAGE_URL": "http://127.0.0.1:1"}))
    assert "not taken" in str(send(event(TABLE), {"OPENLINEAGE_URL": "nonsense"}))


def test_a_file_gets_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "lineage.jsonl"
    for _ in range(2):
        assert send(event(TABLE), {"OPENLINEAGE_URL": file.as_uri()}) is None
    assert [json.loads(line) for line in file.read_text().splitlines()] == [event(TABLE)] * 2
    assert "not written" in str(send(event(TABLE), {"OPENLINEAGE_URL": tmp_path.as_uri()}))
