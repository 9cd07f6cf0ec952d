"""``tallymark load`` without Spark, in both formats of tables, and what the audit hears of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from lineage import assert_openlineage, catalogue

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import load as load_settings
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.plan_file import write_plan
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.lake.table import Manifest
from tallymark_spark_jobs.load import landing
from tallymark_spark_jobs.load.job import LoadJob, topics_to_load
from tallymark_spark_jobs.load.landing import Landed, LandTask, attempt
from tallymark_spark_jobs.load.names import run_name
from tallymark_spark_jobs.load.repairs import repair
from tallymark_spark_jobs.load.shapes import LoadSettings

DAY = 1_769_817_600_000  # 2026-01-31


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as found:
        yield found


class Place:
    """Settings of a deployment of one cluster, and its lake."""

    def __init__(self, folder: Path, servers: str, format: Format) -> None:
        host, _, port = servers.rpartition(":")
        self.servers = servers
        self.settings = folder / "tallymark.toml"
        self.settings.write_text(
            f'data_dir = "{folder}"\n[lake]\nformat = "{format}"\ntopics = "views|clicks"\n'
            f'[[clusters]]\nname = "dc1"\nbrokers = [{{ host = "{host}", port = {port} }}]\n'
        )
        self.lake = Lake(str(folder / "lake"), format)

    def run(self, *options: str, exits: int = 0) -> Any:
        runner = CliRunner()
        found = runner.invoke(
            load, ["--settings", str(self.settings), "--here", "--json", *options]
        )
        if isinstance(found.exception, Exception) and not isinstance(found.exception, SystemExit):
            raise found.exception
        assert found.exit_code == exits, found.output
        return json.loads(found.stdout)

    def send(self, topic: str, first: int, count: int) -> None:
        with Producer(
            bootstrap_servers=self.servers, audit=False, stamp=True, server="web-1"
        ) as producer:
            for n in range(first, first + count):
                producer.send(topic, b"%d" % n, partition=n % 2, timestamp=DAY + 100 * n)

    def values(self, topic: str) -> list[int]:
        table = self.lake.table("dc1", topic)
        found: list[int] = []
        for file in table.open().files():
            rows = pq.ParquetFile(Path(table.location) / file.path).read(["value"])
            found += [int(value) for value in rows["value"].to_pylist()]
        return sorted(found)

    def events(self, table: str) -> list[AuditEvent]:
        """What the reporter of a table has published, in order."""
        with SimpleConsumer(bootstrap_servers=self.servers) as consumer:
            if AUDIT_TOPIC not in consumer.topics():
                return []
            offset, found = 0, list[AuditEvent]()
            while offset < consumer.end_offsets(AUDIT_TOPIC)[0]:
                some = consumer.fetch(AUDIT_TOPIC, 0, offset)
                found += [decode_event(bytes(one.value or b"")) for one in some.records()]
                offset = some.next_offset
        return [event for event in found if event.application == table]


@pytest.fixture(params=["delta", "iceberg"])
def place(request: pytest.FixtureRequest, broker: BrokerThread, tmp_path: Path) -> Iterator[Place]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for topic in ("views", "clicks", "other"):
            admin.create_topic(topic, 2)
        yield Place(tmp_path, broker.bootstrap_servers, request.param)
        for topic in ("views", "clicks", "other", AUDIT_TOPIC):
            admin.delete_topic(topic)


def test_a_catalogue_of_lineage_hears_what_a_load_wrote(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, and whether all that was to be read of each topic is in its table: of clicks a part had
    expired before it was loaded."""
    place.send("views", 0, 200)
    place.send("clicks", 0, 40)
    with catalogue(201) as (url, asked):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        place.run("-t", "clicks")
        place.send("clicks", 40, 40)
        with Admin(bootstrap_servers=place.servers) as admin:
            admin.delete_records({("clicks", 0): 30}).check()
        place.run(exits=3)
    (_, _, first), (_, _, second) = asked
    for told in (first, second):
        assert_openlineage(told)
        assert told["eventType"] == "COMPLETE"
    assert first["run"] != second["run"]
    rows = {
        one["name"].rpartition("/")[2]: one["outputFacets"]["outputStatistics"]["rowCount"]
        for one in second["outputs"]
    }
    assert rows == {"views": 200, "clicks": 20}
    complete = {
        one["name"]: one["inputFacets"]["dataQualityAssertions"]["assertions"][0]
        for one in second["inputs"]
    }
    assert complete["views"]["success"]
    assert not complete["clicks"]["success"]
    assert "clicks-0" in complete["clicks"]["actual"]


def test_topics_become_tables_and_the_audit_hears_of_each_commit_once(place: Place) -> None:
    place.send("views", 0, 200)
    place.send("other", 0, 3)
    first = place.run()
    assert [(one["topic"], one["rows"]) for one in first["tables"]] == [
        ("clicks", 0),
        ("views", 200),
    ]
    assert place.values("views") == list(range(200))
    told = place.events("dc1/views")
    cells = [cell for event in told for cell in event.cells]
    assert sum(cell.count for cell in cells) == 200
    assert {cell.server for cell in cells} == {"web-1"}
    assert {one.through_offset for event in told for one in event.copied} == {100}
    again = place.run()
    assert (again["rows"], again["tables"][1]["versions"]) == (0, [])
    assert place.events("dc1/views") == told
    place.send("views", 200, 10)
    assert place.run()["rows"] == 10
    cells = [cell for event in place.events("dc1/views") for cell in event.cells]
    assert sum(cell.count for cell in cells) == 210


def test_a_load_that_dies_before_its_report_is_reported_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows were in the table, and the audit called them missing for ever."""
    place.send("views", 0, 20)
    with monkeypatch.context() as patch:
        patch.setattr("tallymark_spark_jobs.load.job.report", lambda *which: "the brokers are away")
        assert place.run(exits=4)["unreported"] == ["the brokers are away"] * 2
    assert place.events("dc1/views") == []
    assert place.run()["rows"] == 0
    cells = [cell for event in place.events("dc1/views") for cell in event.cells]
    assert sum(cell.count for cell in cells) == 20


def test_a_table_that_was_deleted_and_loaded_again_is_another_reporter(place: Place) -> None:
    import shutil

    place.send("views", 0, 20)
    place.run()
    shutil.rmtree(place.lake.table("dc1", "views").location)
    for catalog_file in Path(place.lake.path).glob("catalog.db*"):
        catalog_file.unlink()
    place.run()
    assert place.values("views") == list(range(20))
    assert len({event.reporter for event in place.events("dc1/views")}) == 2


def test_files_are_joined_and_orphans_swept_after_a_load(place: Place) -> None:
    for n in range(5):
        place.send("views", 20 * n, 20)
        assert place.run()["rows"] == 20
    location = Path(place.lake.table("dc1", "views").location)
    orphan = location / "topic=views/date=2026-01-31/hour=00/p00000-0-10-dead.parquet"
    orphan.write_bytes(b"what a task left")
    young = orphan.with_name("p00000-0-10-young.parquet")
    young.write_bytes(b"what a task writes now")
    os.utime(orphan, (1_700_000_000, 1_700_000_000))
    told = place.run("--compact", "--sweep", "--topic", "views")
    (kept,) = told["upkeep"]
    assert (kept["files_before"], kept["files_after"], kept["problem"]) == (10, 1, "")
    assert kept["deleted"] == [str(orphan.relative_to(location))]
    assert young.exists()
    assert place.values("views") == list(range(100))
    place.send("views", 100, 5)
    assert place.run()["rows"] == 5
    cells = [cell for event in place.events("dc1/views") for cell in event.cells]
    assert sum(cell.count for cell in cells) == 105, "joined files are no rows that came"


def leaves_out(task: LandTask, last: bool) -> Landed:
    """A load with a fault of its own: it takes the records at offsets 30 to 39 for none."""
    span = task.range
    if span.key.partition or not span.start <= 30 < span.end:
        return attempt(task, last)
    parts = [span._replace(end=30), span._replace(start=40)]
    made = [attempt(replace(task, range=part), last).manifest for part in parts]
    one, other = (cast("Manifest", manifest) for manifest in made)
    tallies = (*one.tallies, *other.tallies)
    files = (*one.files, *other.files)
    return Landed(span, Manifest(span, files, one.rows + other.rows, gaps=10, tallies=tallies))


def test_a_repair_loads_what_the_table_lacks_and_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place.send("views", 0, 200)
    with monkeypatch.context() as patch:
        patch.setattr(landing, "attempt", leaves_out)
        assert place.run()["rows"] == 190
    claims = [cell for event in place.events("dc1/views") for cell in event.cells]
    (cell,) = (cell for cell in claims if cell.partition == 0 and len(cell.accepted.ranges) > 1)
    missing = RangeSet([(30, 39)])
    assert RangeSet([(0, 99)]) - cell.accepted == missing
    item = RepairItem(
        edge="dc1-to-lake",
        upstream="dc1",
        downstream="lake",
        key=CellKey("views", 0, cell.window_start, "web-1", cell.instance),
        topic="views",
        missing=missing,
        count=10,
        within=(),
        places=(MissingRun(0, 30, 39, 30, 39),),
    )
    plan = tmp_path / "plan.json"
    write_plan(RepairPlan(0, (item,)), plan)
    told = place.run("--repair", str(plan))
    assert told["rows"] == 10
    assert place.values("views") == list(range(200))
    table = place.lake.table("dc1", "views")
    assert [commit.operation for commit in table.history()] == ["load", "repair"]
    claims = [cell for event in place.events("dc1/views") for cell in event.cells]
    assert sum(cell.count for cell in claims) == 200
    again = place.run("--repair", str(plan))
    assert (again["rows"], again["outcome"]) == (0, "loaded")
    assert place.values("views") == list(range(200))
    assert place.run()["rows"] == 0, "a repair leaves the offsets alone"


def test_a_repair_names_a_file_of_the_table_that_is_gone(place: Place) -> None:
    place.send("views", 0, 20)
    place.run()
    wanted = {0: RangeSet([(3, 4), (50, 60)])}
    (load,) = topics_to_load(LoadJob(load_settings(place.settings), topics="views"))
    settings = LoadSettings(run_name(DAY), 60_000)
    for file in (Path(load.table.location)).glob("topic=*/**/p00000-*.parquet"):
        file.unlink()
    done = repair(load, wanted, settings, landing.land_here, lambda load, commit: None)
    (why,) = done.problems.values()
    assert "the table names this file, and it cannot be read" in why
    assert done.rows == 0, "and other tables are repaired"


def test_a_dry_run_shows_ranges_bytes_and_tables_and_loads_nothing(place: Place) -> None:
    place.send("views", 0, 40)
    told = place.run("--dry-run", "--topic", "views")
    (table,) = told["tables"]
    assert told["offsets"] == table["offsets"] == 40
    assert table["ranges"] == [{"partition": n, "start": 0, "end": 20} for n in (0, 1)]
    assert 40 * 20 < table["bytes"] < 40 * 200
    assert table["version"] == -1
    assert not Path(table["location"]).exists()


def test_what_is_wrong_is_one_clear_line(place: Place, tmp_path: Path) -> None:
    for options, said in (
        (["--topic", "viws"], "no topic that is loaded is called 'viws'"),
        (["--topic", "("], "is not a regular expression"),
        (["--cluster", "dc9"], "the cluster dc9 is not loaded"),
    ):
        with pytest.raises(UserError, match=said.replace("(", r"\(")):
            place.run(*options)
    place.settings.write_text(place.settings.read_text().replace("[lake]", "[audit]", 1))
    lines = place.settings.read_text().splitlines()
    place.settings.write_text("\n".join(line for line in lines if "format" not in line))
    with pytest.raises(UserError, match=r"the settings have no \[lake\]"):
        place.run()


def test_brokers_that_are_away_are_named(tmp_path: Path) -> None:
    away = Place(tmp_path, "127.0.0.1:1", "delta")
    with pytest.raises(UserError, match="cluster dc1 cannot be read"):
        away.run()
