"""Whole loads without Spark, from a real broker into a table: every message exactly once, whatever
ends a run on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from tallymark import Admin, Producer
from tallymark.deployment import BrokerAddress, Cluster, Deployment, LakeSettings
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.lake.compaction import compact
from tallymark_spark_jobs.lake.memory import MemoryStore, MemoryTable
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    Append,
    Commit,
    Conflict,
    LakeTable,
    Manifest,
    Snapshot,
)
from tallymark_spark_jobs.load.landing import Landed, LandTask, land_here
from tallymark_spark_jobs.load.logs import topics_of
from tallymark_spark_jobs.load.names import run_name
from tallymark_spark_jobs.load.planning import plan_load
from tallymark_spark_jobs.load.run import run_load
from tallymark_spark_jobs.load.shapes import LoadSettings, TopicLoad

DAY = 1_769_817_600_000  # 2026-01-31
SETTINGS = LoadSettings(run_name(DAY), 60_000, rows_per_task=100)


class World:
    """A broker with the topic ``t`` of two partitions, and its table, in files or in memory (then
    only the rows are files)."""

    def __init__(self, broker: BrokerThread, folder: Path, kind: str) -> None:
        self.servers = broker.bootstrap_servers
        self.folder = folder / "dc1" / "t"
        store, lake = MemoryStore(), Lake(str(folder), cast("Format", kind))
        self.table: Callable[[], LakeTable] = (
            (lambda: MemoryTable(store, str(self.folder)))
            if kind == "memory"
            else (lambda: lake.table("dc1", "t"))
        )
        self.kind = kind
        self.sent = 0
        host, _, port = self.servers.rpartition(":")
        cluster = Cluster(name="dc1", brokers=(BrokerAddress(host=host, port=int(port)),))
        self.deployment = Deployment(clusters=(cluster,), lake=LakeSettings())

    def send(self, count: int, topic: str = "t") -> None:
        with Producer(
            bootstrap_servers=self.servers, audit=False, stamp=True, server="web-1"
        ) as producer:
            for n in range(self.sent, self.sent + count):
                producer.send(topic, b"%d" % n, partition=n % 2, timestamp=DAY + 1_000 * n)
        self.sent += count

    def loads(self, topic: str = "t") -> list[TopicLoad]:
        (cluster,) = self.deployment.clusters
        found = topics_of(self.deployment, cluster, topic)
        connection: Any = {"bootstrap_servers": self.servers}
        return [
            TopicLoad(
                "dc1", name, tuple(logs), self.table(), Storage(str(self.folder), {}), connection
            )
            for name, logs in found.items()
        ]

    def run(self, lander: Any = land_here, settings: LoadSettings = SETTINGS) -> Any:
        settings = replace(settings, run=run_name(DAY))
        (result,) = run_load(self.loads(), settings, lander, Steps(lambda text: None, quiet=True))
        return result

    def rows(self) -> list[tuple[str, int, int, bytes]]:
        """What a reader of the table finds: the topic's id, partition, offset, value."""
        found: list[tuple[str, int, int, bytes]] = []
        names = ["topic_id", "partition", "offset", "value"]
        for file in self.table().open().files():
            rows = pq.ParquetFile(self.folder / file.path).read(names)
            found += [tuple(row[name] for name in names) for row in rows.to_pylist()]
        return sorted(found)

    def check(self) -> None:
        """Each message that was sent is in the table exactly once."""
        values = sorted(int(row[-1]) for row in self.rows())
        assert values == list(range(self.sent))
        assert len({row[:3] for row in self.rows()}) == self.sent

    def orphans(self) -> set[str]:
        named = {file.path for file in self.table().open().files()}
        there = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}
        return {path for path in there - named if path.startswith("topic=")}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture(params=["memory", "delta", "iceberg"])
def world(request: pytest.FixtureRequest, broker: BrokerThread, tmp_path: Path) -> Iterator[World]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2)
        yield World(broker, tmp_path, request.param)
        admin.delete_topic("t")


def test_loads_one_after_the_other_bring_each_message_once(world: World) -> None:
    world.send(500)
    first = world.run()
    assert (first.rows, first.problems, len(first.commits)) == (500, {}, 1)
    world.check()
    assert world.run().commits == [], "there is nothing new"
    world.send(7)
    assert world.run().rows == 7
    world.check()
    assert world.orphans() == set()


def test_max_rows_and_rows_per_commit_bound_a_run_and_its_commits(world: World) -> None:
    world.send(500)
    part = world.run(settings=replace(SETTINGS, max_rows=130, rows_per_commit=50))
    assert (part.rows, len(part.commits), part.left) == (130, 3, 370)
    assert all(one.job.endswith(" part") for one in part.commits)
    rest = world.run(settings=replace(SETTINGS, rows_per_commit=150))
    assert (rest.rows, rest.left, rest.late) == (370, 0, 0)
    assert [one.job.endswith(" part") for one in rest.commits] == [True, True, False]
    world.check()


def test_rows_of_hours_that_were_complete_are_late(world: World) -> None:
    world.send(10)
    for run, late in ((DAY + 3 * 3_600_000, 0), (DAY + 4 * 3_600_000, 10)):
        settings = replace(SETTINGS, run=run_name(run))
        (found,) = run_load(
            world.loads(), settings, land_here, Steps(lambda text: None, quiet=True)
        )
        assert found.late == late
        world.send(10)


def test_a_run_that_dies_before_its_commit_leaves_only_orphans(world: World) -> None:
    world.send(300)

    def dies(tasks: Sequence[LandTask]) -> Any:
        list(land_here(tasks))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(dies)
    assert world.rows() == []
    assert len(world.orphans()) == 4
    assert world.run().rows == 300
    world.check()


def test_a_twin_of_a_task_is_not_in_the_table(world: World) -> None:
    """Speculation and retries: both wrote their file, Spark returns one manifest."""
    world.send(300)

    def twice(tasks: Sequence[LandTask]) -> list[Landed]:
        list(land_here(tasks))
        return list(land_here(tasks))

    assert world.run(twice).rows == 300
    world.check()
    assert len(world.orphans()) == 4


def test_two_loads_at_once_bring_each_message_once(world: World) -> None:
    """The second began before the first committed: it is refused, throws its files away, and finds
    nothing more to do."""
    world.send(300)
    inner: list[Any] = []

    def overtaken(tasks: Sequence[LandTask]) -> list[Landed]:
        found = list(land_here(tasks))
        if not inner:
            inner.append(world.run())
            world.send(20)
        return found

    result = world.run(overtaken)
    assert (inner[0].rows, result.rows, result.problems) == (300, 0, {})
    assert world.run().rows == 20, "the ends of a load are fixed when it begins"
    world.check()
    assert world.orphans() == set()


def test_files_are_joined_beside_a_load(world: World) -> None:
    if world.kind == "memory":
        return  # nothing that stands for it
    for _ in range(6):
        world.send(20)
        world.run()
    world.send(20)
    joined: list[Any] = []

    def beside(tasks: Sequence[LandTask]) -> list[Landed]:
        found = list(land_here(tasks))
        joined.append(compact(cast("Any", world.table()), 64 << 20, job="compact"))
        return found

    assert world.run(beside).rows == 20
    assert joined[0].files_before > joined[0].files_after > 0
    world.check()
    assert world.run().commits == []


def test_a_driver_that_was_stopped_and_goes_on_later_is_refused(world: World) -> None:
    """A zombie: it holds what it landed and the snapshot of its beginning, and commits long after
    others have loaded the same offsets, and more. Its commit was laid on top, all rows twice."""
    world.send(100)
    (one,) = world.loads()
    snapshot = one.table.open()
    plan = plan_load(one.logs, one.table.offsets(snapshot))
    epochs = {log.key: log.leader_epoch for log in one.logs}
    tasks = [
        LandTask(span, epochs[span.key], one.connection, one.storage, 60_000)
        for span in plan.ranges
    ]
    landed = [cast("Manifest", found.manifest) for found in land_here(tasks)]
    world.send(60)
    assert world.run().rows == 160
    append = Append(run_name(DAY), plan.ranges, tuple(landed), one.format.schema)
    for attempt in range(2):
        with pytest.raises(Conflict):
            one.table.commit(snapshot if attempt else one.table.open(), append)
    world.check()


def test_a_table_that_others_always_load_first_is_given_up_on(world: World) -> None:
    world.send(40)

    def overtaken(tasks: Sequence[LandTask]) -> list[Landed]:
        found = list(land_here(tasks))
        world.run(settings=replace(SETTINGS, max_rows=2))
        return found

    result = world.run(overtaken)
    assert "5 times in a row" in next(iter(result.problems.values()))
    world.run()
    world.check()


def test_a_partition_that_cannot_be_read_holds_up_no_other(world: World) -> None:
    world.send(300)

    def broken(tasks: Sequence[LandTask]) -> Iterator[Landed]:
        for task in tasks:
            if task.range.key.partition == 1 and task.range.start > 0:
                yield Landed(task.range, failure="t-1: cannot be read from offset 75 on")
            else:
                yield from land_here([task])

    result = world.run(broken)
    assert list(result.problems.values()) == ["t-1: cannot be read from offset 75 on"]
    assert result.rows == 150 + 75
    assert world.orphans() == set()
    assert world.run().rows == 75
    world.check()


def test_what_retention_deleted_is_left_until_a_person_accepts_it(world: World) -> None:
    world.send(100)
    world.run()
    world.send(100)
    with Admin(bootstrap_servers=world.servers) as admin:
        admin.delete_records({("t", 0): 70})
    result = world.run()
    assert result.rows == 50, "the other partition is loaded"
    (text,) = result.problems.values()
    assert "t-0: 20 offsets from 50 to 69 were deleted before they were loaded" in text
    again = world.run(settings=replace(SETTINGS, accept_gap=True))
    assert again.rows == 30
    assert [(gap.start, gap.end, why) for gap, why in again.lost] == [
        (50, 70, "deleted before it was loaded")
    ]
    (commit,) = again.commits
    assert commit.expired == 20
    assert world.run().commits == []


def test_a_topic_made_anew_is_loaded_from_its_beginning_beside_the_old_one(world: World) -> None:
    world.send(100)
    world.run()
    with Admin(bootstrap_servers=world.servers) as admin:
        admin.delete_topic("t")
        admin.create_topic("t", 2)
    world.send(30)
    assert world.run().rows == 30
    assert sorted(int(row[-1]) for row in world.rows()) == list(range(130))


def test_a_task_finds_that_the_topic_was_made_anew(world: World) -> None:
    world.send(100)
    loads = world.loads()
    with Admin(bootstrap_servers=world.servers) as admin:
        admin.delete_topic("t")
        admin.create_topic("t", 2)
    world.send(100)
    (result,) = run_load(loads, SETTINGS, land_here, Steps(lambda text: None, quiet=True))
    assert result.commits == []
    assert all("made anew" in text for text in result.problems.values())
    world.run()
    assert sorted(int(row[-1]) for row in world.rows()) == list(range(100, 200))


class _Refusing:
    """A table whose commit fails for a reason that is nobody's race."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, snapshot: Snapshot, append: Append) -> Commit:
        raise UserError("the catalogue of the lake cannot be used: it is away")


def test_a_commit_that_fails_is_a_problem_and_nothing_is_lost(world: World) -> None:
    world.send(60)
    (one,) = world.loads()
    broken = replace(one, table=cast("LakeTable", _Refusing(one.table)))
    (result,) = run_load([broken], SETTINGS, land_here, Steps(lambda text: None, quiet=True))
    assert any("catalogue of the lake" in text for text in result.problems.values())
    assert world.run().rows == 60
    world.check()
