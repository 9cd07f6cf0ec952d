"""Drivers of a load die at any point, as processes do; the next load brings what is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from tallymark import Admin, Producer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_spark_jobs.lake.opening import Format, Lake
from tallymark_spark_jobs.lake.table import Detail

pytestmark = pytest.mark.process
DAY = 1_769_817_600_000  # 2026-01-31
SENT = 400

DIES = """
import os, sys
from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.load import run
from tallymark_spark_jobs.jobs.load import main

where = sys.argv[1]
commit = CommittedTable.commit

def dies(self, snapshot, append):
    if where == "before":
        os._exit(9)
    made = commit(self, snapshot, append)
    if where == "after":
        os._exit(9)
    return made

CommittedTable.commit = dies
if where == "part":  # many commits
    from dataclasses import replace
    from tallymark_spark_jobs.load.job import LoadJob
    settings = LoadJob.settings
    LoadJob.settings = lambda self, n=1: replace(settings(self, n), rows_per_commit=30)
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as found:
        with Admin(bootstrap_servers=found.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
        with Producer(bootstrap_servers=found.bootstrap_servers, audit=False) as producer:
            for n in range(SENT):
                producer.send("t", b"%d" % n, partition=n % 2, timestamp=DAY + n)
        yield found.bootstrap_servers


class Loads:
    """Runs of ``tallymark load`` as processes, into one lake."""

    def __init__(self, folder: Path, servers: str, format: str) -> None:
        host, _, port = servers.rpartition(":")
        self.folder = folder
        self.settings = folder / "tallymark.toml"
        self.settings.write_text(
            f'data_dir = "{folder}"\n[lake]\nformat = "{format}"\n[[clusters]]\nname = "dc1"\n'
            f'brokers = [{{ host = "{host}", port = {port} }}]\n'
        )
        (folder / "dies.py").write_text(DIES)
        self.table: Any = Lake(str(folder / "lake"), cast("Format", format)).table("dc1", "t")

    def start(self, where: str = "nowhere") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                str(self.folder / "dies.py"),
                where,
                "--settings",
                str(self.settings),
                "--here",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TALLYMARK_JIT": "0"},
        )

    def run(self, where: str = "nowhere") -> tuple[int, str]:
        process = self.start(where)
        said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def values(self) -> list[int]:
        found: list[int] = []
        for file in self.table.open().files():
            rows = pq.ParquetFile(Path(self.table.location) / file.path).read(["value"])
            found += [int(value) for value in rows["value"].to_pylist()]
        return sorted(found)

    def on_disk(self) -> int:
        return len(list(Path(self.table.location).glob("topic=*/**/*.parquet")))


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def loads(request: pytest.FixtureRequest, broker: str, tmp_path: Path) -> Loads:
    return Loads(tmp_path, broker, request.param)


def test_a_driver_dies_before_its_commit_and_one_after_it(loads: Loads) -> None:
    assert loads.run("before")[0] == 9
    assert loads.values() == []
    assert loads.on_disk() == 2
    assert loads.run("after")[0] == 9
    assert loads.values() == list(range(SENT)), "the commit stands"
    code, said = loads.run()
    assert (code, said.splitlines()[-1]) == (0, "nothing new in 1 table")
    assert loads.values() == list(range(SENT))
    assert loads.on_disk() == 4, "two are orphans, and no row of the table"
    detail: Detail = next(iter(loads.table.history())).detail()
    assert sum(tally.messages for tally in detail.tallies) == SENT


@pytest.mark.soak
def test_two_processes_load_the_same_table_at_once(loads: Loads) -> None:
    """Each in a dozen commits, so that they overtake one another."""
    both = [loads.start("part"), loads.start("part")]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] in ([0, 0], [0, 3], [3, 0], [3, 3]), said
    while loads.run()[0] != 0:
        continue
    assert loads.values() == list(range(SENT))
    rows = [commit.rows for commit in loads.table.history()]
    assert sum(rows) == SENT
