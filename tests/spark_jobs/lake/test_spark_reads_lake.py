"""Spark reads a table by its files, without a jar of the table's format."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake_rows import ROWS, key, land, load

from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.reading import spark_frame
from tallymark_spark_jobs.lake.table import OffsetRange, Place

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


def test_each_message_once_with_typed_columns(spark: Any, lake: Lake) -> None:
    """The hour stays ``08``: Spark's own guess at the folder's name makes it the number 8. The file
    of a dead task lies beside; a column came in the middle."""
    table = lake.table("dc1", "page-views")
    load(table, 0, 100)
    land(table.location, OffsetRange(key(0), 100, 150))
    wider = pa.schema([*ROWS, pa.field("user", pa.string())])
    next_hour = Place("page-views", "2026-01-31", "09")
    load(table, 0, 150, schema=wider, place=next_hour)
    snapshot = table.open()
    frame = spark_frame(spark, table.storage, snapshot)
    assert frame.columns == [*wider.names, "topic", "date", "hour"]
    found = frame.groupBy("topic", "date", "hour").count().orderBy("hour").collect()
    assert [tuple(row) for row in found] == [
        ("page-views", date(2026, 1, 31), "08", 100),
        ("page-views", date(2026, 1, 31), "09", 50),
    ]
    assert frame.select("offset").distinct().count() == 150
    of_eight = spark_frame(spark, table.storage, snapshot, lambda place: place.hour == "08")
    assert of_eight.count() == 100
    assert of_eight.where("user is not null").count() == 0


def test_a_table_that_is_not_there_is_an_empty_frame(spark: Any, lake: Lake) -> None:
    table = lake.table("dc1", "nothing")
    assert spark_frame(spark, table.storage, table.open()).count() == 0
