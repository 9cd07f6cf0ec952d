"""Loads on Spark: tasks that fail, die, or run twice, on both formats of tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from tallymark import Admin, Producer
from tallymark.deployment import BrokerAddress, Cluster, Deployment, LakeSettings
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.lake.opening import Format
from tallymark_spark_jobs.load.job import LoadJob, run_job, topics_to_load
from tallymark_spark_jobs.load.landing import Landed, Lander, LandTask, attempt
from tallymark_spark_jobs.load.on_spark import attempts_allowed, lander_on
from tallymark_spark_jobs.load.outcome import Outcome, to_json

pytestmark = pytest.mark.spark
DAY = 1_769_817_600_000  # 2026-01-31
SENT = 1_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark import cloudpickle

    workers_have_no_tests: Any = cloudpickle.register_pickle_by_value
    workers_have_no_tests(sys.modules[__name__])
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2,3]") as session:
        yield session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 3)
        with Producer(
            bootstrap_servers=broker.bootstrap_servers, audit=False, stamp=True, server="web-1"
        ) as producer:
            for n in range(SENT):
                producer.send("t", b"%d" % n, partition=n % 3, timestamp=DAY + 10_000 * n)
        host, _, port = broker.bootstrap_servers.rpartition(":")
        yield Cluster(name="dc1", brokers=(BrokerAddress(host=host, port=int(port)),))


@pytest.fixture(params=["delta", "iceberg"])
def job(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> LoadJob:
    lake = LakeSettings(path=str(tmp_path / "lake"), format=cast("Format", request.param))
    return LoadJob(Deployment(clusters=(cluster,), data_dir=tmp_path, lake=lake), topics="t")


def run(job: LoadJob, lander: Lander) -> Outcome:
    return run_job(job, topics_to_load(job), lander, Steps(lambda text: None, quiet=True))


def places(job: LoadJob) -> list[tuple[int, int]]:
    """Partition and offset of every row of the table; each value is the one that stands there."""
    table = job.lake.table("dc1", "t")
    found: list[tuple[int, int]] = []
    for file in table.open().files():
        columns = ["partition", "offset", "value"]
        for row in pq.ParquetFile(Path(table.location) / file.path).read(columns).to_pylist():
            assert int(row["value"]) == row["offset"] * 3 + row["partition"]
            found.append((row["partition"], row["offset"]))
    return sorted(found)


EVERY = sorted((n % 3, n // 3) for n in range(SENT))


def on_disk(job: LoadJob) -> int:
    location = Path(job.lake.table("dc1", "t").location)
    return len(list(location.glob("topic=*/**/*.parquet")))


def lander_with(spark: Any, attempted: Any, *more: Any) -> Lander:
    """A lander whose tasks run ``attempted(*more, task)`` in Spark's workers."""

    def land_all(tasks: Sequence[LandTask]) -> list[Landed]:
        cut = spark.sparkContext.parallelize(tasks, len(tasks))
        return cast("list[Landed]", cut.map(partial(attempted, *more)).collect())

    return land_all


def tried() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def dies_after_its_files(task: LandTask) -> Landed:
    found = attempt(task, last=False)
    if tried() == 0:
        os._exit(1)  # as if the executor was killed
    return found


def fails_after_its_files(task: LandTask) -> Landed:
    found = attempt(task, last=False)
    if tried() < 2:
        raise OSError("the disk of this worker is gone")
    return found


def twin(task: LandTask) -> Landed:
    attempt(task, last=True)  # the other one ended first, and Spark threw it away
    return attempt(task, last=True)


def test_topics_are_loaded_and_the_second_load_finds_nothing_new(spark: Any, job: LoadJob) -> None:
    outcome = run(job, lander_on(spark))
    told = to_json(outcome)
    assert (told["outcome"], told["rows"], told["unreported"]) == ("loaded", SENT, [])
    assert places(job) == EVERY
    hours = {file.place.folder for file in job.lake.table("dc1", "t").open().files()}
    assert hours == {f"topic=t/date=2026-01-31/hour={hour:02}" for hour in range(3)}
    again = run(job, lander_on(spark))
    assert json.dumps(to_json(again)["tables"][0]["versions"]) == "[]"
    assert places(job) == EVERY


@pytest.mark.soak_cases("iceberg", "dies_after_its_files")
@pytest.mark.parametrize("attempted", [dies_after_its_files, fails_after_its_files, twin])
def test_what_a_task_left_behind_is_never_in_the_table(
    spark: Any, job: LoadJob, attempted: Any
) -> None:
    outcome = run(job, lander_with(spark, attempted))
    assert (to_json(outcome)["outcome"], outcome.results[0].rows) == ("loaded", SENT)
    assert places(job) == EVERY
    named = len(list(job.lake.table("dc1", "t").open().files()))
    assert on_disk(job) >= 2 * named, "every task left files that no commit names"
    folder = job.lake.table("dc1", "t").location
    everything = spark.read.parquet(f"{folder}/topic=t").count()
    assert everything > SENT, "a reader that lists the folder sees them"


def test_a_permanent_error_ends_its_partition_at_once(
    spark: Any, job: LoadJob, tmp_path: Path
) -> None:
    """A topic that was made anew since the plan: Spark tried four times, then ended the job."""
    loads = topics_to_load(job)
    wrong = "00000000-0000-4000-8000-000000000000"
    made = [
        type(load)(
            load.cluster,
            load.topic,
            tuple(
                type(log)(log.key._replace(topic_id=wrong), log.earliest, log.end)
                if log.key.partition == 1
                else log
                for log in load.logs
            ),
            load.table,
            load.storage,
            load.connection,
        )
        for load in loads
    ]
    notes = tmp_path / "tries"
    lander = lander_with(spark, noted, str(notes))
    outcome = run_job(job, made, lander, Steps(lambda text: None, quiet=True))
    assert [key.partition for key in outcome.results[0].problems] == [1]
    assert to_json(outcome)["exit"] == 3
    assert notes.read_text().split().count("1") == 1, "it was tried once"
    assert run(job, lander_on(spark)).results[0].rows == len(EVERY) // 3
    assert places(job) == EVERY


def noted(notes: str, task: LandTask) -> Landed:
    with open(notes, "a", encoding="ascii") as file:
        file.write(f"{task.range.key.partition}\n")
    return attempt(task, last=False)


@pytest.mark.parametrize(
    ("master", "said", "times"),
    [
        ("local", None, 1),
        ("local[*]", "4", 1),
        ("local[2,3]", None, 3),
        ("local[*, 7]", None, 7),
        ("spark://host:7077", None, 4),
        ("yarn", "9", 9),
    ],
)
def test_how_often_spark_tries_a_task(master: str, said: str | None, times: int) -> None:
    assert attempts_allowed(master, said) == times
