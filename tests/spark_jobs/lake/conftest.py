"""Every test of a table runs on both formats, and on the double that stands for them elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tallymark_spark_jobs.lake.memory import MemoryStore, MemoryTable
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.lake.table import LakeTable

Tables = Callable[[], LakeTable]
"""Makes one more object of the same table, as another process would."""


@pytest.fixture(params=["memory", "delta", "iceberg"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    if request.param == "memory":
        store = MemoryStore()
        return lambda: MemoryTable(store, str(tmp_path / "dc1" / "page-views"))
    lake = Lake(str(tmp_path), cast("Format", request.param))
    return lambda: cast("LakeTable", lake.table("dc1", "page-views"))


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Tables in files, for what the double cannot show."""
    return Lake(str(tmp_path), cast("Format", request.param))
