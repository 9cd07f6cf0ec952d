"""Whose settings of Spark win: ours are defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.deployment import Deployment
from tallymark.errors import UserError
from tallymark_spark_jobs.engine import running
from tallymark_spark_jobs.engine.running import is_lost, refuse_lost_store
from tallymark_spark_jobs.engine.said import (
    in_files_and_environment,
    of_options,
    refuse_too_late,
)
from tallymark_spark_jobs.engine.session import all_settings, spark_session
from tallymark_spark_jobs.engine.settings import JAVA_OPTIONS, chosen, is_local
from tallymark_spark_jobs.engine.sizing import SMALL, SMALL_ROWS, local_size

GIB = 1 << 30
WORK = Path("/tmp/work")
NAMES = sorted(chosen({}, WORK))


@given(st.dictionaries(st.sampled_from([*NAMES, "spark.other"]), st.text("ab", min_size=1)))
def test_whatever_someone_has_said_is_left_alone(said: dict[str, str]) -> None:
    """spark-submit --conf was overridden by our own settings."""
    assert not chosen(said, WORK).keys() & said.keys()
    if said.get("spark.master", "local").startswith("local"):
        assert set(NAMES) <= chosen(said, WORK).keys() | said.keys()


def test_a_local_session_stays_on_this_host_and_is_small() -> None:
    local = chosen({"spark.master": "local[2]"}, WORK)
    assert local["spark.driver.bindAddress"] == local["spark.driver.host"] == "127.0.0.1"
    assert local["spark.ui.enabled"] == "false"
    assert local["spark.sql.session.timeZone"] == "UTC"
    assert local["spark.driver.memory"] == "1024m"
    assert local["spark.sql.shuffle.partitions"] == "2"
    assert "TieredStopAtLevel=1" in local[JAVA_OPTIONS]


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://h", "local-cluster[2,1,512]"])
def test_a_cluster_keeps_its_interface_its_shuffle_and_its_addresses(master: str) -> None:
    """Two shuffle partitions, no adaptive execution and no user interface, at any size."""
    assert not is_local(master)
    assert set(chosen({"spark.master": master}, WORK)) == {
        "spark.sql.session.timeZone",
        "spark.sql.execution.arrow.pyspark.enabled",
        "spark.ui.showConsoleProgress",
    }


def test_what_java_is_started_with_is_no_longer_chosen_once_it_runs() -> None:
    started = chosen({"spark.master": "local[2]"}, WORK, started=True)
    assert started["spark.sql.shuffle.partitions"] == "2"
    assert JAVA_OPTIONS not in started
    assert "spark.driver.memory" not in started


def test_java_gets_one_collector() -> None:
    """Two collectors named keep Java from starting."""
    said = {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}
    assert "UseSerialGC" not in chosen(said, WORK)[JAVA_OPTIONS]
    assert "spark.driver.extraJavaOptions" not in chosen(said, WORK)


def test_a_large_job_gets_the_optimizing_compiler_and_adaptive_execution() -> None:
    large = chosen({}, WORK, local_size(500_000_000, 8, 64 * GIB))
    assert large["spark.sql.adaptive.enabled"] == "true"
    assert large["spark.sql.shuffle.partitions"] == "16"
    assert large["spark.driver.memory"] == "4096m"
    assert "TieredStopAtLevel" not in large[JAVA_OPTIONS]


@given(st.none() | st.integers(0, 1 << 50), st.integers(1, 256), st.integers(256 << 20, 1 << 42))
def test_a_heap_leaves_room_for_the_workers(planned: int | None, cores: int, memory: int) -> None:
    size = local_size(planned, cores, memory)
    assert 1024 <= size.heap_mb <= max(1024, memory // 4 >> 20)
    assert size.shuffle_partitions >= 2
    assert (size == SMALL) == (planned is None or planned < SMALL_ROWS)


def test_what_the_files_and_the_environment_say(tmp_path: Path) -> None:
    """In the order of Spark itself: files below arguments."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n"
        "spark.master            spark://from-file:7077\n"
        "spark.ui.enabled=true\n"
        "spark.driver.memory : 3g\n"
        "spark.jars.packages \\\n   a:b:1\n"
        "spark.sql.shuffle.partitions\t 7  \n"
        "\n"
    )
    environment = {
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_DRIVER_MEMORY": "9g",
        "PYSPARK_SUBMIT_ARGS": (
            "--master yarn --conf spark.ui.port=1 --conf=spark.sql.adaptive.enabled=true"
            " --executor-memory=2g --name 'a b' pyspark-shell"
        ),
    }
    assert in_files_and_environment(environment, Path("/nowhere")) == {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.driver.memory": "3g",
        "spark.jars.packages": "a:b:1",
        "spark.sql.shuffle.partitions": "7",
        "spark.ui.port": "1",
        "spark.sql.adaptive.enabled": "true",
        "spark.executor.memory": "2g",
    }
    below_home = in_files_and_environment({}, tmp_path)
    assert below_home == {}, "SPARK_HOME/conf has none"
    (tmp_path / "conf").mkdir()
    (tmp_path / "spark-defaults.conf").rename(tmp_path / "conf" / "spark-defaults.conf")
    assert in_files_and_environment({}, tmp_path)["spark.driver.memory"] == "3g"


def test_defaults_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"spark-defaults\.conf"):
        in_files_and_environment({"SPARK_CONF_DIR": str(tmp_path)}, tmp_path)


def test_the_option_of_a_command_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.enabled true\nspark.master yarn\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert all_settings(tmp_path, None, {}, None)["spark.master"] == "yarn"
    conf = of_options(["spark.sql.shuffle.partitions=5", "spark.x=a=b"])
    settings = all_settings(tmp_path, "local[2]", conf, None)
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.sql.shuffle.partitions"] == "5"
    assert settings["spark.x"] == "a=b"


@pytest.mark.parametrize("pair", ["spark.x", "x=1", "=1", ""])
def test_an_option_that_is_no_setting(pair: str) -> None:
    with pytest.raises(UserError, match="no setting of Spark"):
        of_options([pair])


def test_an_option_that_comes_too_late() -> None:
    refuse_too_late({"spark.sql.shuffle.partitions": "5"})
    with pytest.raises(UserError, match=r"spark\.driver\.memory comes too late") as error:
        refuse_too_late({"spark.driver.memory": "5g"})
    assert "spark-submit --conf spark.driver.memory=5g" in str(error.value)


def test_a_store_that_would_go_with_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In cluster mode the driver runs in a folder that is deleted after it: verdicts were written
    into a new store there, and the run said that all was well."""
    assert is_lost(f"sqlite:///{tmp_path / 'audit.db'}")
    (tmp_path / "audit.db").touch()
    assert not is_lost(f"sqlite:///{tmp_path / 'audit.db'}")
    assert not is_lost("postgresql+psycopg://audit@host/audit")
    deployment = Deployment(data_dir=tmp_path / "elsewhere")
    refuse_lost_store(deployment)  # not in cluster mode: it is made
    monkeypatch.setattr(running, "driver_runs_anywhere", lambda: True)
    with pytest.raises(UserError, match="is not on the machine of the driver"):
        refuse_lost_store(deployment)


def test_the_workers_python_runs_on_the_driver_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In client mode ./environment/bin/python is a name of the executors' folders; Spark plans a
    Python data source with it on the driver, and fails there with a line about a broken pipe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/false")
    conf = {"spark.pyspark.python": "./environment/bin/python"}
    with (
        pytest.raises(UserError, match=r"\./environment/bin/python is not here") as told,
        spark_session("test", tmp_path / "spark.log", "local[1]", conf),
    ):
        pass
    assert "tar xzf" in str(told.value)
