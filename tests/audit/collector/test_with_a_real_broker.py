"""The audit around a real broker: a Producer that finds the interceptor by its entry point, the
collector as its service, one producer that is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from one_cluster import collecting, one_cluster, settings_of

from tallymark.client import Producer
from tallymark.deployment import Deployment
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.collector.counting import fetch_runs
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.compiled_runs import cutter
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row

pytestmark = pytest.mark.process
EDGE = "producer-to-dc1"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, num_partitions=2) as running:
        yield running


@pytest.fixture
def deployment(broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings_of(tmp_path)))
    return one_cluster(broker.bootstrap_servers, tmp_path, lake=None)


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


@pytest.fixture
def collector(deployment: Deployment) -> Iterator[CollectorService]:
    with collecting(deployment) as service:
        yield service


def rows(store: Store) -> list[Row]:
    with store.read() as connection:
        return queries.windows(connection, EDGE)


def all_decided(store: Store, at_least: int) -> bool:
    found = rows(store)
    waiting = {State.OPEN, State.SETTLING, State.UNKNOWN}
    decided = not any(State(row["state"]) in waiting for row in found)
    return decided and sum(row["claimed"] for row in found) >= at_least


def test_what_is_published_is_complete(
    broker: BrokerThread, collector: CollectorService, store: Store
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
        for number in range(2000):
            producer.send("views", b"x" * 50, key=str(number).encode())
    eventually(lambda: all_decided(store, 2000))
    assert {row["state"] for row in rows(store)} == {State.COMPLETE}
    assert sum(row["observed"] for row in rows(store)) == 2000
    with store.read() as connection:
        (reporter,) = queries.all_reporters(connection)
        assert queries.all_incidents(connection) == []
    assert (reporter["server"], reporter["closed"]) == ("web-1", True)


def test_the_compiled_loops_count_as_soon_as_they_are_ready(
    broker: BrokerThread,
    deployment: Deployment,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service warms them in the background, and nothing else does."""
    pytest.importorskip("numba")
    cuts = 0
    cut = cutter.RunCutter.runs

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal cuts
        cuts += 1
        return cut(*args, **kwargs)

    monkeypatch.setattr(cutter.RunCutter, "runs", counted)
    monkeypatch.setattr(fetch_runs, "FEW_BYTES", 0)
    service = CollectorService(deployment, "dc1")
    try:
        eventually(cutter.ready, seconds=250)
        with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
            for number in range(2000):
                producer.send("views", b"x" * (number % 50), key=str(number).encode())
        eventually(lambda: all_decided(store, 2000))
    finally:
        service.close()
    service.check()
    assert cuts
    assert {row["state"] for row in rows(store)} == {State.COMPLETE}
    assert sum(row["observed"] for row in rows(store)) == 2000


PUBLISHER = """
    import sys, time
    from tallymark.client import Producer
    producer = Producer(bootstrap_servers=sys.argv[1], server="doomed", linger_ms=20)
    number = 0
    while True:
        producer.send("views", b"x" * 50, key=str(number).encode())
        number += 1
        if number % 50 == 0:
            print(number, flush=True)
            time.sleep(0.002)
"""


def test_kill_9_of_a_producer_loses_no_claim(
    broker: BrokerThread, collector: CollectorService, deployment: Deployment, store: Store
) -> None:
    """It is killed with records in every state. Its journal is published by the collector of the
    host; afterwards every window is decided, and nothing is missing, unclaimed or unknown."""
    script = textwrap.dedent(PUBLISHER)
    process = subprocess.Popen(
        [sys.executable, "-c", script, broker.bootstrap_servers],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert process.stdout is not None
    with process, process.stdout:
        while int(process.stdout.readline()) < 3000:
            pass
        os.kill(process.pid, signal.SIGKILL)
    assert list(deployment.journal_dir.glob("*.journal"))
    eventually(lambda: not list(deployment.journal_dir.glob("*")) and all_decided(store, 1000))
    found = rows(store)
    assert {row["state"] for row in found} <= {State.COMPLETE, State.EXPLAINED}
    assert sum(row["unclaimed"] + row["missing"] + row["duplicates"] for row in found) == 0
    with store.read() as connection:
        (reporter,) = queries.all_reporters(connection)
    assert (reporter["server"], reporter["closed"]) == ("doomed", True)
