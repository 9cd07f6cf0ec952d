"""A session of ours on a machine alone: whose settings it has, and what one sees of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import UserError
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.running import Engine, spark_job

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Spark's own settings of this machine, of which one is overridden by the command's."""
    folder = tmp_path_factory.mktemp("conf")
    (folder / "spark-defaults.conf").write_text(
        "spark.sql.shuffle.partitions 7\n"
        "spark.sql.adaptive.enabled true\n"
        "spark.driver.extraJavaOptions -Dours=no\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        yield folder


def test_a_job_has_the_settings_of_others_before_ours(defaults: Path, tmp_path: Path) -> None:
    """One session for all of it, since each costs ten seconds."""
    lines: list[str] = []
    steps = Steps(lines.append)
    engine = Engine("local[2]", {"spark.sql.adaptive.enabled": "false"})
    with spark_job("test-engine", tmp_path, engine, steps) as spark:
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
        assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
        assert system.getProperty("ours") == "no"
        work = Path(system.getProperty("derby.system.home"))
        assert work.is_dir()
        _the_bar_follows_the_tasks(spark, steps)
        finished = [line.partition(" s  ")[2] for line in lines if " s  " in line]
        assert finished == ["starting Spark", "sleeping"]
    assert not work.exists()
    with pytest.raises(UserError, match="Spark failed"), _failing(tmp_path, steps) as spark:
        spark.sql("select * from nowhere").collect()


def _the_bar_follows_the_tasks(spark: Any, steps: Steps) -> None:
    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        time.sleep(1)
        yield from batches

    with steps.step("sleep", "sleeping", rows=800) as step:
        spark.range(8, numPartitions=8).mapInArrow(slowly, "id long").collect()
        seen = step.tasks
    assert seen[1] == 8
    assert 0 < seen[0] <= 8
    assert step.done == 100 * seen[0]


def _failing(log: Path, steps: Steps) -> Any:
    return spark_job("test-errors", log, Engine("local[1]"), steps)
