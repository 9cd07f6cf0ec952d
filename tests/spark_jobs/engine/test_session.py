"""A session of ours on a machine alone: whose settings it has, and what one sees of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_jvm import own_jvm

from tallymark.errors import ConnectError, UserError
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.running import Engine, spark_job

pytestmark = pytest.mark.spark


@pytest.fixture
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
        with own_jvm():
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


def _the_bar_follows_the_tasks(spark: Any, steps: Steps) -> None:
    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        time.sleep(1)
        yield from batches

    with steps.step("sleep", "sleeping", rows=800) as step:
        spark.range(8, numPartitions=8).mapInArrow(slowly, "id long").collect()
        seen = step.tasks
    assert seen[1] == 8
    assert 0 < seen[0] <= 8
    assert 100 * seen[0] <= step.done <= 800


@pytest.mark.soak
def test_a_permanent_error_ends_the_job_at_once(tmp_path: Path) -> None:
    """Spark runs a failed task four times, whatever it failed with: a topic that is gone was looked
    for again and again, and the nightly run failed minutes later with the same line."""
    tries = tmp_path / "tries"
    tries.mkdir()

    def gone(batches: Iterator[Any]) -> Iterator[Any]:
        (tries / str(time.time_ns())).touch()
        time.sleep(1.5)  # as long as brokers are asked
        with in_one_line():
            raise UserError("there is no topic page-views")
        yield from batches

    def away(batches: Iterator[Any]) -> Iterator[Any]:
        (tries / str(time.time_ns())).touch()
        time.sleep(0.3)
        if len(list(tries.iterdir())) < 3:
            with in_one_line():
                raise ConnectError("broker:9092", "connect", "refused")
        yield from batches

    engine = Engine("local[1,4]", {"spark.sql.shuffle.partitions": "2"})
    with (
        pytest.raises(UserError, match="Spark failed"),
        spark_job("test-errors", tmp_path, engine, Steps(lambda line: None)) as spark,
    ):
        _a_try_that_mends_it_and_an_error_of_spark(spark, away, tries)
    for file in tries.iterdir():
        file.unlink()
    with (
        pytest.raises(UserError, match="there is no topic page-views"),
        spark_job("test-errors", tmp_path, engine, Steps(lambda line: None)) as spark,
    ):
        spark.range(30, numPartitions=30).mapInArrow(gone, "id long").collect()
    assert len(list(tries.iterdir())) < 4


def _a_try_that_mends_it_and_an_error_of_spark(spark: Any, away: Any, tries: Path) -> None:
    rows = spark.range(3, numPartitions=1).mapInArrow(away, "id long").collect()
    assert len(rows) == 3
    assert len(list(tries.iterdir())) == 3
    spark.sql("select * from nowhere").collect()
