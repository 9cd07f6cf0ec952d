"""Two collectors beside one broker, as processes: killed, paused, stopped in order."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from eventually import eventually
from sqlalchemy import func, select

from tallymark.client import Producer
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.schema.tables import collectors, observations, progress

pytestmark = pytest.mark.process
PARTITIONS = 4
SESSION_MS = 2000
MAIN = "import sys; from tallymark.cli.main import main; sys.argv[0] = 'tallymark'; main()"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(
        tmp_path,
        num_partitions=PARTITIONS,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1000,
    ) as running:
        yield running


@pytest.fixture
def settings(broker: BrokerThread, tmp_path: Path) -> Path:
    port = int(broker.bootstrap_servers.rsplit(":", 1)[1])
    made = Deployment(
        data_dir=tmp_path / "data",
        clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=port),)),),
        mirrors=(),
        audit=AuditSettings(window_ms=1000, settle_min_ms=500, report_interval_ms=100),
    )
    path = tmp_path / "tallymark.toml"
    path.write_text(dump_toml(made))
    with open_store(made.audit_store):
        pass
    return path


@pytest.fixture
def store(settings: Path, tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'data' / 'audit.db'}") as opened:
        yield opened


@pytest.fixture
def start(settings: Path, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    with ExitStack() as opened:

        def started(name: str) -> subprocess.Popen[bytes]:
            output = opened.enter_context((tmp_path / f"{name}.log").open("wb"))
            command = [sys.executable, "-c", MAIN, "audit", "collect", "--cluster", "all"]
            command += ["--session-timeout-ms", str(SESSION_MS)]
            environment = {**os.environ, "TALLYMARK_SETTINGS": str(settings)}
            process = subprocess.Popen(command, stderr=output, env=environment)
            opened.callback(end, process)
            return process

        yield started


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def pause(process: subprocess.Popen[bytes], database: Path) -> None:
    """Stop it where it does not hold SQLite's lock: stopped in the middle of a write it held up the
    collector that took over, for as long as it stood still."""

    def stands_apart() -> bool:
        process.send_signal(signal.SIGSTOP)
        with closing(sqlite3.connect(database, timeout=0.5, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
                return False
            return True

    eventually(stands_apart, what="it is stopped between two writes")


def publish(producer: Producer, count: int) -> None:
    for number in range(count):
        producer.send("views", b"x" * 20, partition=number % PARTITIONS)
    producer.flush()


def counted(store: Store) -> int:
    with store.read() as connection:
        return connection.scalar(select(func.sum(observations.c.count))) or 0


def in_charge(store: Store) -> str:
    with store.read() as connection:
        return connection.scalar(select(collectors.c.owner)) or ""


def generations(store: Store) -> dict[tuple[str, int], int]:
    with store.read() as connection:
        rows = connection.execute(select(progress)).mappings().all()
    return {(row["topic"], row["partition"]): row["generation"] for row in rows}


def shared(tmp_path: Path, name: str) -> bool:
    """Whether a collector was given a part that is not everything."""
    text = (tmp_path / f"{name}.log").read_text()
    return any(f"has {count} partitions" in text for count in (1, 2, 3))


def duplicates(store: Store) -> int:
    """Records counted twice would be copies."""
    with store.read() as connection:
        rows = connection.execute(select(observations.c.copies)).scalars().all()
    return sum(len(copies) for copies in rows)


def test_when_one_of_two_is_killed_or_paused_the_counts_stay_exact(
    broker: BrokerThread,
    store: Store,
    start: Callable[[str], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, server="web-1") as producer:
        publish(producer, 400)
        one = start("one")
        eventually(lambda: counted(store) == 400, what="the only one counts all")
        two = start("two")
        eventually(shared, tmp_path, "two", what="the second has its part")
        publish(producer, 400)
        eventually(lambda: counted(store) == 800, what="both count their parts")
        if not in_charge(store).endswith(f":{one.pid}"):  # it was starved, and out for a while
            one, two = two, one

        one.kill()
        one.wait()
        publish(producer, 400)
        eventually(lambda: counted(store) == 1200, what="the other has taken over")
        eventually(lambda: in_charge(store).endswith(f":{two.pid}"), what="in charge")

        three = start("three")
        eventually(shared, tmp_path, "three", what="the third has its part")
        before = generations(store)
        pause(two, tmp_path / "data" / "audit.db")
        publish(producer, 400)
        eventually(lambda: counted(store) == 1600, what="the third has taken over")
        assert generations(store) != before
        two.send_signal(signal.SIGCONT)
        publish(producer, 400)
        eventually(lambda: counted(store) == 2000, what="it goes on after the pause")
        assert two.poll() is None
        three.send_signal(signal.SIGTERM)
        assert three.wait(30) == 0
        publish(producer, 400)
        eventually(lambda: counted(store) == 2400, what="the rejoined one counts all")
    assert duplicates(store) == 0
