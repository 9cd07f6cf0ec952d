"""A micro-batch as a load, without Spark: whatever comes again, every message is in the table
once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest

from tallymark import Admin, Producer
from tallymark.deployment import BrokerAddress, Cluster, Deployment, LakeSettings
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.lake.opening import Format
from tallymark_spark_jobs.load.job import LoadJob, run_job, topics_to_load
from tallymark_spark_jobs.load.landing import land_here
from tallymark_spark_jobs.load.names import complete_as_of
from tallymark_spark_jobs.load.outcome import Outcome
from tallymark_spark_jobs.stream.batches import Ends, load_batch

DAY = 1_769_817_600_000  # 2026-01-31


class Lake:
    """A broker with the topic ``t`` of two partitions, and the job that loads it."""

    def __init__(self, broker: BrokerThread, folder: Path, table: str) -> None:
        self.servers = broker.bootstrap_servers
        host, _, port = self.servers.rpartition(":")
        cluster = Cluster(name="dc1", brokers=(BrokerAddress(host=host, port=int(port)),))
        lake = LakeSettings(path=str(folder / "lake"), format=cast("Format", table))
        deployment = Deployment(clusters=(cluster,), data_dir=folder, lake=lake)
        self.job = LoadJob(deployment, topics="t")
        self.admin = Admin(bootstrap_servers=self.servers)
        self.admin.create_topic("t", 2)

    def send(self, partition: int, values: range) -> None:
        with Producer(bootstrap_servers=self.servers, audit=False, stamp=True) as producer:
            for n in values:
                producer.send("t", b"%d" % n, partition=partition, timestamp=DAY + n)

    def ends(self, first: int, second: int) -> Ends:
        """As the source tells them, of a stream that began at 0."""
        topic_id = str(self.admin.topics()["t"].topic_id)
        return {("t", topic_id, 0): (0, first), ("t", topic_id, 1): (0, second)}

    def batch(self, first: int, second: int) -> Outcome:
        steps = Steps(lambda text: None, quiet=True)
        return load_batch(self.job, self.ends(first, second), land_here, steps)

    def load(self) -> Outcome:
        """``tallymark load``."""
        steps = Steps(lambda text: None, quiet=True)
        return run_job(self.job, topics_to_load(self.job), land_here, steps)

    def rows(self) -> list[tuple[int, int]]:
        """Partition and offset of every row."""
        table = self.job.lake.table("dc1", "t")
        return sorted(
            (row["partition"], row["offset"])
            for file in table.open().files()
            for row in pq.ParquetFile(Path(table.location) / file.path)
            .read(["partition", "offset"])
            .to_pylist()
        )


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with BrokerThread(tmp_path / "broker") as broker:
        made = Lake(broker, tmp_path, request.param)
        with made.admin:
            yield made


def versions(outcome: Outcome) -> int:
    return sum(len(one.commits) for one in outcome.results)


def test_a_batch_that_comes_again_changes_nothing(lake: Lake) -> None:
    """The driver died between the table's commit and Spark's: Spark runs the batch again."""
    lake.send(0, range(10))
    lake.send(1, range(4))
    assert versions(lake.batch(6, 4)) == 1
    assert versions(lake.batch(6, 4)) == 0
    assert versions(lake.batch(3, 2)) == 0, "an older one, of a checkpoint that was restored"
    assert versions(lake.batch(10, 4)) == 1
    assert lake.rows() == [*((0, n) for n in range(10)), *((1, n) for n in range(4))]


def test_a_load_beside_the_stream(lake: Lake) -> None:
    lake.send(0, range(10))
    lake.batch(4, 0)
    assert versions(lake.load()) == 1
    assert versions(lake.batch(8, 0)) == 0
    lake.send(0, range(10, 12))
    lake.batch(12, 0)
    assert lake.rows() == [(0, n) for n in range(12)]


def test_what_retention_took_before_it_was_loaded_is_said(lake: Lake) -> None:
    """Batch 0 was to load [0, 10) and its driver died. Four records expired before it came again.
    The empty table knew no offset, so the load began at 4 and nothing said that four messages are
    lost."""
    lake.send(0, range(10))
    lake.send(1, range(2))
    lake.admin.delete_records({("t", 0): 4})
    outcome = lake.batch(10, 2)
    (problem,) = outcome.results[0].problems.values()
    assert "4 offsets from 0 to 3 were deleted before they were loaded" in problem
    assert lake.rows() == [(1, 0), (1, 1)], "the other partition is not held up"
    lake.job = replace(lake.job, accept_gap=True)
    (result,) = lake.batch(10, 2).results
    assert [str(gap.end - gap.start) for gap, _ in result.lost] == ["4"]
    assert lake.rows() == [*((0, n) for n in range(4, 10)), (1, 0), (1, 1)]


def test_a_topic_that_came_later_begins_where_it_does(lake: Lake) -> None:
    """What it lost before the stream knew it was never to be loaded."""
    lake.send(0, range(10))
    lake.admin.delete_records({("t", 0): 4})
    ends = {place: (-1, end) for place, (_, end) in lake.ends(10, 0).items()}
    steps = Steps(lambda text: None, quiet=True)
    assert not load_batch(lake.job, ends, land_here, steps).results[0].problems
    assert lake.rows() == [(0, n) for n in range(4, 10)]


def test_only_the_batch_that_reaches_the_ends_says_so(lake: Lake) -> None:
    """A commit's name says up to when everything is in the table; what comes behind that is late.
    Batches with a limit said it too, and rows of the same backlog were marked late."""
    lake.send(0, range(10))
    first, last = lake.batch(5, 0), lake.batch(10, 0)
    assert [complete_as_of(one.run) is not None for one in (first, last)] == [False, True]
