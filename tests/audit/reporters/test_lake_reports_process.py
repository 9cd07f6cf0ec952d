"""The reports of a load on a running stack: a real broker, the collector as its service, and a
scripted commit whose tallies go through :class:`LakeReports`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import eventually
from memory_lake import MemoryLake
from one_cluster import WINDOW_MS, collecting, one_cluster, records_of, settings_of

from tallymark.client import Producer
from tallymark.deployment import Deployment, LakeSettings
from tallymark.errors import TallymarkError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.states import State
from tallymark_audit.reporters.lake import LakeCommit, LakeReports, LoadedThrough
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.testing import MemoryCluster

pytestmark = pytest.mark.process
EDGE = "dc1-to-lake"
RECORDS = 1000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, num_partitions=2) as running:
        yield running


@pytest.fixture
def deployment(broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings_of(tmp_path)))
    return one_cluster(broker.bootstrap_servers, tmp_path, LakeSettings())


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


@pytest.fixture
def collector(deployment: Deployment) -> Iterator[CollectorService]:
    with collecting(deployment) as service:
        yield service


def states(store: Store) -> dict[int, str]:
    with store.read() as connection:
        return {row["window"]: row["state"] for row in queries.windows(connection, EDGE)}


def missing(store: Store) -> int:
    with store.read() as connection:
        return sum(row["missing"] for row in queries.windows(connection, EDGE))


def test_a_commit_that_lacks_rows_is_found_and_its_repair_too(
    broker: BrokerThread, deployment: Deployment, collector: CollectorService, store: Store
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
        for number in range(RECORDS):
            producer.send("views", b"x" * 50, key=str(number).encode())
    eventually(lambda: bool(states(store)) and set(states(store).values()) == {State.SETTLING})
    lake = MemoryLake(MemoryCluster(), WINDOW_MS, "views")
    logs = {
        partition: records_of(broker.bootstrap_servers, "views", partition) for partition in (0, 1)
    }
    assert sum(map(len, logs.values())) == RECORDS
    lost, kept = logs[0][7:10], {0: logs[0][:7] + logs[0][10:], 1: logs[1]}
    tallies = [one for p, rows in kept.items() for one in lake.tallies(p, rows, [])]
    through = tuple(LoadedThrough("views", p, len(rows)) for p, rows in logs.items())
    now = time.time_ns() // 1_000_000
    first = LakeCommit(0, now, tallies, through)
    again = LakeCommit(2, now + 1, lake.tallies(0, lost, []))
    with LakeReports(deployment, "dc1", "dc1/views", "id", now - 5) as reports:
        assert reports.send([first]) == 0
        eventually(lambda: State.SETTLING not in states(store).values())
        assert State.LOSS in states(store).values()
        assert missing(store) == 3
        assert reports.send([first, again], confirmed=0) == 2  # what is confirmed is left out
        eventually(lambda: set(states(store).values()) == {State.COMPLETE})
    with LakeReports(deployment, "dc1", "dc1/views", "id", now - 5) as reports:
        reports.send([first, again])  # another load, which knows nothing: the same events again
        with store.read() as connection:
            (table,) = [r for r in queries.all_reporters(connection) if r["kind"] == "lake"]
            assert table["reporter"] == reports.reporter
            told = [(i["kind"], i["reason"]) for i in queries.all_incidents(connection)]
            assert not told, str(told)
    time.sleep(2)
    assert set(states(store).values()) == {State.COMPLETE}


def test_a_cluster_that_is_away_leaves_the_reports_to_be_sent_again(
    broker: BrokerThread, deployment: Deployment
) -> None:
    lake = MemoryLake(MemoryCluster(), WINDOW_MS, "views")
    commit = LakeCommit(0, 1, lake.tallies(0, [], []), (LoadedThrough("views", 0, 5),))
    reports = LakeReports(deployment, "dc1", "dc1/views", "id", 1)
    assert reports.send([]) == -1
    assert reports.send([commit]) == 0
    broker.stop()
    with pytest.raises(TallymarkError):
        reports.send([replace(commit, version=1)], confirmed=0, timeout=1.0)
    reports.close()
