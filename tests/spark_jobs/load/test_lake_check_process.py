"""What happens to the files of a table after a load, on a running cluster: a count of the rows
finds it, the hop into the lake shows it, a repair brings back what was lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from eventually import eventually
from one_cluster import collecting, one_cluster, settings_of

from tallymark.client import Producer
from tallymark.deployment import Deployment, LakeSettings
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.cli.repair import repair
from tallymark_audit.judge.verdicts import State
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_spark_jobs.cli.lake import lake
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.lake.opening import Lake

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
EDGE = "dc1-to-lake"
RECORDS = 600
GONE = (7, 8, 250)
"""Offsets of partition 0 whose rows vanish."""


def run(command: Any, *options: str, exits: int = 0) -> str:
    done = CliRunner().invoke(command, options, catch_exceptions=False)
    assert done.exit_code == exits, done.output
    return done.stdout


@pytest.fixture
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deployment]:
    """A cluster whose topic is loaded, and its collector."""
    settings = LakeSettings(topics="views", format=getattr(request, "param", "delta"))
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings_of(tmp_path)))
    with BrokerThread(tmp_path, num_partitions=2) as broker:
        made = one_cluster(broker.bootstrap_servers, tmp_path, settings)
        with collecting(made):
            with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
                for number in range(RECORDS):
                    producer.send("views", b"x" * 50, partition=number % 2)
            run(load, "--here")
            yield made


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


def states(store: Store) -> set[str]:
    with store.read() as connection:
        return {row["state"] for row in queries.windows(connection, EDGE)}


def total(store: Store, what: str) -> int:
    with store.read() as connection:
        return sum(row[what] for row in queries.windows(connection, EDGE))


def checked(exits: int) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(run(lake, "check", "--all", "--json", exits=exits))
    return told


def files_of(deployment: Deployment, partition: int) -> list[Path]:
    """The files of the table that hold rows of the partition."""
    table = Lake(deployment.lake_path, deployment.lake.format).table("dc1", "views")  # type: ignore[union-attr]
    paths = [Path(table.location) / one.path for one in table.open().files()]
    return [path for path in paths if partition in _partitions(path)]


def _partitions(path: Path) -> list[int]:
    with pq.ParquetFile(path) as parquet:
        found: list[int] = parquet.read(["partition"])["partition"].to_pylist()
    return found


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    with pq.ParquetFile(path) as parquet:
        rows = parquet.read()
    pq.write_table(change(rows), path)


def without_gone(rows: pa.Table) -> pa.Table:
    kept = [number for number, at in enumerate(rows["offset"].to_pylist()) if at not in GONE]
    return rows.take(kept)


@pytest.mark.soak
@pytest.mark.parametrize(
    "deployment", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)], indirect=True
)
def test_rows_that_vanish_are_found_and_loaded_again(deployment: Deployment, store: Store) -> None:
    """A disk, a person or another engine took rows out of a file: commits still had them, so the
    hop into the lake stayed COMPLETE."""
    eventually(lambda: states(store) == {State.COMPLETE})
    assert checked(exits=0)["cells"] == []
    for path in files_of(deployment, 0):
        rewrite(path, without_gone)
    assert sum(cell["missing"] for cell in checked(exits=3)["cells"]) == len(GONE)
    eventually(lambda: State.LOSS in states(store))
    assert total(store, "missing") == len(GONE)

    place = ("--edge", EDGE)

    def planned() -> int:
        items = json.loads(run(repair, *place, "--json"))["items"]
        return sum(item["count"] for item in items if not item["refused"])

    eventually(lambda: planned() == len(GONE))  # once the collector has located them
    run(repair, *place, "--apply", "--verify", "--timeout", "60")
    assert states(store) == {State.COMPLETE}
    assert checked(exits=0)["rows"] == RECORDS
    assert states(store) == {State.COMPLETE}


def test_rows_that_are_there_twice_are_found_and_a_copy_of_the_file_mends_it(
    deployment: Deployment, store: Store, tmp_path: Path
) -> None:
    eventually(lambda: states(store) == {State.COMPLETE})
    path = files_of(deployment, 1)[0]
    shutil.copy(path, tmp_path / "copy")
    rewrite(path, lambda rows: pa.concat_tables([rows, rows.slice(2, 5)]))
    assert sum(cell["extra"] for cell in checked(exits=3)["cells"]) == 5
    eventually(lambda: State.DUPLICATION in states(store))
    assert total(store, "duplicates") == 5
    shutil.copy(tmp_path / "copy", path)
    assert checked(exits=0)["cells"] == []
    eventually(lambda: states(store) == {State.COMPLETE})


def test_a_file_that_is_lost_is_named(deployment: Deployment, store: Store, tmp_path: Path) -> None:
    eventually(lambda: states(store) == {State.COMPLETE})
    path = files_of(deployment, 1)[0]
    path.rename(tmp_path / "away")
    told = checked(exits=3)
    assert [line for line in told["lost"] if path.name in line and "gone" in line]
    lost = sum(cell["missing"] for cell in told["cells"])
    assert lost == pq.ParquetFile(tmp_path / "away").metadata.num_rows
    eventually(lambda: total(store, "missing") == lost)
