"""``tallymark audit scrub`` on a real broker: a disk changes what was counted, and it is found."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from eventually import eventually

from tallymark.client import Admin, Producer
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.proof.drill.faults import at_rest
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries

pytestmark = pytest.mark.process
W = 1000
EACH = 1200
EDGE = "producer-to-dc1"


class Stack:
    """A broker, its collector, and what they share; six windows of one topic."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.broker = stack.enter_context(BrokerThread(folder))
        address = BrokerAddress(port=self.broker.settings.port)
        self.deployment = Deployment(
            data_dir=folder / "data",
            clusters=(Cluster(name="dc1", brokers=(address,)),),
            mirrors=(),
            audit=AuditSettings(
                window_ms=W,
                settle_min_ms=500,
                settle_max_ms=2000,
                content_check=True,
            ),
        )
        (folder / "tallymark.toml").write_text(dump_toml(self.deployment))
        self.store: Store = stack.enter_context(open_store(self.deployment.audit_store))
        self.service = CollectorService(self.deployment, "dc1")
        stack.callback(lambda: self.service.close())

    def collect(self, scrub_rate: int) -> None:
        """Another collector in place of the one before, with this setting."""
        self.service.close()
        audit = self.deployment.audit.model_copy(update={"scrub_rate": scrub_rate})
        changed = self.deployment.model_copy(update={"audit": audit})
        self.service = CollectorService(changed, "dc1")

    def fill(self) -> None:
        servers = self.broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("metrics", 1, configs={"segment.bytes": "4096"})
        end = time.time_ns() // 1_000_000 // W * W
        audit = AuditInterceptor(W, content_check=True)
        with Producer(bootstrap_servers=servers, server="web", interceptors=[audit]) as producer:
            for n in range(EACH):
                at = end - 6 * W + n * 6 * W // EACH
                producer.send("metrics", b"%d" % n, partition=0, timestamp=at)
                if n % 20 == 19:
                    producer.flush()
        eventually(lambda: self.states() == ["COMPLETE"] * 6)

    def states(self) -> list[str]:
        with self.store.read() as connection:
            rows = queries.windows(connection, EDGE, "metrics")
        return [row["state"] for row in rows]

    def rot(self, *how: Callable[[Path], object]) -> None:
        """Do this to closed segments in the middle, while the broker is down."""
        self.broker.stop()
        (folder,) = self.broker.settings.log_dirs[0].glob("metrics-0")
        segments = sorted(folder.glob("*.log"))
        for number, one in enumerate(how):
            one(segments[2 + 2 * number])
        self.broker.start()

    def scrub(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tallymark", "audit", "scrub", *arguments]
        settings = ["--settings", str(self.folder / "tallymark.toml")]
        return subprocess.run([*command, *settings], capture_output=True, text=True, timeout=240)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with ExitStack() as opened:
        yield Stack(tmp_path, opened)


def remove(segment: Path) -> None:
    for file in segment.parent.glob(f"{segment.stem}.*"):
        file.unlink()


def change(segment: Path) -> None:
    at_rest.change_values(segment, random.Random(1))


def test_what_the_disk_changed_is_found_by_the_scrub(stack: Stack) -> None:
    """Values changed under a valid CRC, and a closed segment gone, after they were counted: the
    first nobody noticed, Spark included, the second only Spark, at night."""
    stack.fill()
    well = stack.scrub("--topic", "met.*")
    assert well.returncode == 0, well.stdout + well.stderr
    assert "complete" in well.stdout
    stack.rot(change, remove)
    done = stack.scrub()
    assert done.returncode == 3, done.stdout + done.stderr
    assert {"CORRUPT", "LOSS"} <= set(stack.states())
    assert "CORRUPT" in done.stdout
    assert "LOSS" in done.stdout
    told = json.loads(stack.scrub("--json").stdout)
    assert [one["done"] for one in told["partitions"]] == [True]
    assert sum(one["cells"] for one in told["partitions"]) == 0, "nothing is new the second time"
    assert {"CORRUPT", "LOSS"} <= {row["state"] for row in told["verdicts"]}


def test_a_collector_with_a_rate_finds_it_by_itself(tmp_path: Path) -> None:
    with ExitStack() as opened:
        stack = Stack(tmp_path, opened)
        stack.fill()
        stack.rot(change, remove)
        stack.collect(scrub_rate=10_000_000)
        eventually(lambda: {"CORRUPT", "LOSS"} <= set(stack.states()))


def test_nobody_is_there_to_read_again(tmp_path: Path) -> None:
    """It would wait for ever: say who is missing, and how to start one."""
    with ExitStack() as opened:
        Stack(tmp_path, opened).fill()
    store = tmp_path / "data" / "audit.db"
    assert store.exists()
    with ExitStack() as opened:
        stack = Stack.__new__(Stack)
        stack.folder = tmp_path
        done = stack.scrub()
    assert done.returncode == 1
    assert "no collector of dc1 is running" in done.stderr
