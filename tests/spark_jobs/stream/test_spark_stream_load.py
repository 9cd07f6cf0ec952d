"""``tallymark stream-load`` in Spark, into both formats of tables: drivers that die, batches that
come again, retention that moves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tallymark import Admin, Producer
from tallymark.deployment import load as load_settings
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.cli.stream_load import stream_load
from tallymark_spark_jobs.engine import running
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.load.job import LoadJob
from tallymark_spark_jobs.stream.query import LoadStream, StoppedError, StreamSettings

pytestmark = pytest.mark.spark
pyspark = pytest.importorskip("pyspark")
LIMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
DAY = 1_769_817_600_000  # 2026-01-31


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("stream-load tests", log, "local[2]") as session:
        yield session


class Stream:
    """The stream of one lake; each run is one of ``stream-load --available-now``."""

    def __init__(self, spark: Any, folder: Path, servers: str, table: str) -> None:
        host, _, port = servers.rpartition(":")
        self.spark = spark
        self.servers = servers
        self.settings = folder / "tallymark.toml"
        self.settings.write_text(
            f'data_dir = "{folder}"\n[lake]\nformat = "{table}"\n[[clusters]]\nname = "dc1"\n'
            f'brokers = [{{ host = "{host}", port = {port} }}]\n'
        )
        self.checkpoint = folder / "checkpoint"
        self.table: Any = Lake(str(folder / "lake"), cast("Format", table)).table("dc1", "t")
        self.admin = Admin(bootstrap_servers=servers)
        self.admin.create_topic("t", 2)
        self.said: list[str] = []

    def send(self, partition: int, values: range) -> None:
        with Producer(bootstrap_servers=self.servers, audit=False, stamp=True) as producer:
            for n in values:
                producer.send("t", b"%d" % n, partition=partition, timestamp=DAY + n)

    def run(
        self, say: Callable[[str], None] | None = None, most: int = 0, accept_gap: bool = False
    ) -> None:
        job = LoadJob(load_settings(self.settings), topics="t", accept_gap=accept_gap)
        settings = StreamSettings(str(self.settings), str(self.checkpoint), None, most)
        LoadStream(self.spark, job, settings, say or self.said.append).run()

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of every row."""
        return sorted(
            (row["partition"], row["offset"])
            for file in self.table.open().files()
            for row in pq.ParquetFile(Path(self.table.location) / file.path)
            .read(["partition", "offset"])
            .to_pylist()
        )

    def loads(self) -> int:
        return sum(commit.operation == "load" for commit in self.table.history())


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def stream(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Stream]:
    with BrokerThread(tmp_path / "broker") as broker:
        made = Stream(spark, tmp_path, broker.bootstrap_servers, request.param)
        with made.admin:
            yield made


def dies(_: str) -> None:
    """Called behind the table's commit and before Spark's."""
    raise RuntimeError("the driver died here")


@pytest.mark.soak
def test_batches_of_limited_size_and_what_is_new(stream: Stream) -> None:
    stream.send(0, range(30))
    stream.send(1, range(10))
    stream.run(most=16 if LIMITS else 0)
    every = [*((0, n) for n in range(30)), *((1, n) for n in range(10))]
    assert stream.rows() == every
    commits = stream.loads()
    assert commits >= (3 if LIMITS else 1)
    stream.run()
    assert stream.loads() == commits, "nothing is new"
    stream.send(1, range(10, 12))
    stream.run()
    assert stream.rows() == [*every, (1, 10), (1, 11)]


def test_a_driver_that_dies_behind_its_commit(stream: Stream) -> None:
    """Spark has not committed the batch and runs it again, by when the log's beginning has expired:
    the table has it, so nothing is lost and nothing comes twice."""
    stream.send(0, range(10))
    with pytest.raises(RuntimeError, match="the driver died here"):
        stream.run(dies)
    stream.send(0, range(10, 14))
    stream.admin.delete_records({("t", 0): 7})
    stream.run()
    if not LIMITS:  # AvailableNow is one batch there, and that was the old one
        stream.run()
    assert stream.rows() == [(0, n) for n in range(14)]
    assert stream.loads() == 2


def test_batch_0_dies_and_comes_again_after_retention_moved(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was committed anywhere, and Spark asks where the stream begins again: at 4 now. Four
    messages were lost without a word."""
    from tallymark_spark_jobs.stream import query

    def died(*_: Any) -> Any:
        raise RuntimeError("the driver died here")

    stream.send(0, range(10))
    with monkeypatch.context() as patched:
        patched.setattr(query, "load_batch", died)
        with pytest.raises(RuntimeError, match="the driver died here"):
            stream.run()
    stream.admin.delete_records({("t", 0): 4})
    with pytest.raises(StoppedError, match="4 offsets from 0 to 3 were deleted before they were"):
        stream.run()
    stream.run(accept_gap=True)
    assert stream.rows() == [(0, n) for n in range(4, 10)]


@pytest.mark.soak
def test_the_command_follows_and_is_stopped(tmp_path: Path) -> None:
    """It loads what comes while it runs, and ends as systemd stops it: exit code 0."""
    with BrokerThread(tmp_path / "broker") as broker:
        made = Stream(None, tmp_path, broker.bootstrap_servers, "delta")
        with made.admin:
            made.send(0, range(40))
            job = _command(["--settings", str(made.settings), "--every", "1", "-t", "t"])
            _until(job, lambda: made.table.open().version >= 0 and len(made.rows()) >= 40)
            made.send(1, range(3))
            _until(job, lambda: len(made.rows()) >= 43)
            _stopped(job)
            assert made.rows() == [*((0, n) for n in range(40)), (1, 0), (1, 1), (1, 2)]


@pytest.mark.soak
def test_the_command_killed_and_started_again(tmp_path: Path) -> None:
    """Killed in the middle of its batches, then stopped as systemd stops it: exit code 0."""
    with BrokerThread(tmp_path / "broker") as broker:
        made = Stream(None, tmp_path, broker.bootstrap_servers, "delta")
        with made.admin:
            made.send(0, range(40))
            arguments = ["--settings", str(made.settings), "--every", "1", "-t", "t"]
            arguments += ["--max-offsets", "8"] if LIMITS else []
            first = _command(arguments)
            _until(first, lambda: made.table.open().version >= 0 and made.loads() >= 2)
            first.kill()
            first.communicate(timeout=60)
            assert len(made.rows()) < 40 or not LIMITS
            second = _command(arguments)
            _until(second, lambda: len(made.rows()) >= 40)
            made.send(1, range(3))
            _until(second, lambda: len(made.rows()) >= 43)
            _stopped(second)
            assert made.rows() == [*((0, n) for n in range(40)), (1, 0), (1, 1), (1, 2)]


def test_offsets_that_need_a_decision_are_exit_code_3(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def this_session(*_: Any) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(running, "spark_job", this_session)
    with BrokerThread(tmp_path / "broker") as broker:
        made = Stream(spark, tmp_path, broker.bootstrap_servers, "delta")
        with made.admin:
            made.send(1, range(3))
            arguments = ["--settings", str(made.settings), "-t", "t", "--available-now"]
            assert CliRunner().invoke(stream_load, arguments).exit_code == 0
            made.send(1, range(3, 9))
            made.admin.delete_records({("t", 1): 5})
            told = CliRunner().invoke(stream_load, arguments)
    assert told.exit_code == 3, told.output
    assert "2 offsets from 3 to 4 were deleted before they were loaded" in told.output
    assert made.rows() == [(1, 0), (1, 1), (1, 2)]


def _stopped(job: subprocess.Popen[str]) -> None:
    job.send_signal(signal.SIGTERM)
    said, _ = job.communicate(timeout=120)
    assert job.returncode == 0, said
    assert "stream-load: stopped" in said
    assert "Traceback" not in said


def _command(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tallymark_spark_jobs.jobs.stream_load", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TALLYMARK_JIT": "0"},
        start_new_session=True,
    )


def _until(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not done():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.2)
