"""The snippets of docs/lake.md, run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake_rows import load
from project import ROOT

from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.lake.opening import Lake

pytestmark = pytest.mark.spark
PAGE = ROOT / "docs" / "lake.md"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("lake", log, "local[2]") as session:
        yield session


def test_reading(spark: Any, tmp_path: Path) -> None:
    load(Lake(str(tmp_path)).table("dc1", "page-views"), 0, 50)
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(snippets) == 2
    world: dict[str, Any] = {"spark": spark}
    for snippet in snippets:
        exec(snippet.replace("/data/lake", str(tmp_path)), world)
    assert list(world["views"].columns) == ["timestamp", "partition", "offset"]
    assert sorted(world["views"]["offset"]) == list(range(50))
    assert [tuple(row) for row in world["by_hour"].collect()] == [("08", 50)]
