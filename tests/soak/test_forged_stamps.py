"""A real broker, collector and dashboards while somebody forges stamps: what that costs is bounded,
the other topic's watermark does not wait for it, and when it is over all is as it was."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from fastapi.testclient import TestClient

from tallymark.client import Admin, Producer
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.processes.child_process import kill_process
from tallymark_audit.judge.verdicts import State
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import openings
from tallymark_audit.store.reading import queries
from tallymark_dashboards.app.application import create_app

FORGED = 50_000
EDGE = "producer-to-dc1"
W = 5_000
QUIET_S, LONG_S = 40, 60
LAG, CPU_S, STORE, PAGE, PAGE_S = 1.5, 20, 40 << 20, 300_000, 2.0
"""What the attack may cost: the other topic's greatest lag as a ratio, seconds of the collector's
processor, bytes of the store, and of the page of the window that was hit bytes and seconds."""
MEMORY, LOG = 2.0, 200_000
"""The collector's peak memory as a ratio, and bytes of its log."""


@dataclass
class Stack:
    """What runs, and what it costs."""

    deployment: Deployment
    store: Store
    collector: subprocess.Popen[bytes]
    web: TestClient
    lags: list[float] = field(default_factory=list)
    """Of the other topic's watermark, in seconds, as often as it was looked at."""

    def cpu_s(self) -> float:
        """Processor time of the collector so far (Linux)."""
        fields = Path(f"/proc/{self.collector.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The most that the collector ever had resident, in bytes (Linux)."""
        status = Path(f"/proc/{self.collector.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def store_bytes(self) -> int:
        return sum(one.stat().st_size for one in self.deployment.data_dir.glob("audit.db*"))

    def lag_s(self) -> float:
        with self.store.read() as connection:
            marks = {(one.edge, one.topic): one.through for one in queries.overview(connection)}
        return time.time() - marks.get((EDGE, "other"), 0) / 1000

    def watch(self, seconds: float) -> Phase:
        """Look on for a while."""
        lags: list[float] = []
        cpu, end = self.cpu_s(), time.monotonic() + seconds
        while time.monotonic() < end:
            lags.append(self.lag_s())
            time.sleep(0.25)
        return Phase(max(lags), sum(lags) / len(lags), (self.cpu_s() - cpu) / seconds)

    def page(self, topic: str, window: int) -> tuple[int, float]:
        """Bytes and seconds of a window's page."""
        began = time.monotonic()
        page = self.web.get("/window", params={"edge": EDGE, "topic": topic, "window": window})
        assert page.status_code == 200
        return len(page.content), time.monotonic() - began


@dataclass(frozen=True)
class Phase:
    """Lags of the other topic in seconds, and the collector's share of a core."""

    worst_lag: float
    mean_lag: float
    cpu: float


@contextmanager
def stack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    (folder / "broker").mkdir()
    with BrokerProcess(folder / "broker") as broker:
        made = Deployment(
            data_dir=folder / "data",
            clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=broker.port),)),),
            mirrors=(),
            audit=AuditSettings(window_ms=W, settle_min_ms=1_000, report_interval_ms=500),
        )
        path = folder / "tallymark.toml"
        path.write_text(dump_toml(made))
        monkeypatch.setenv("TALLYMARK_SETTINGS", str(path))
        with Admin(bootstrap_servers=broker.address) as admin:
            for topic in ("flooded", "other"):
                admin.create_topic(topic, 1, {})
        command = (sys.executable, "-m", "tallymark", "audit", "collect", "--cluster", "dc1")
        with (
            (folder / "collector.log").open("wb") as log,
            open_store(made.audit_store) as store,
            TestClient(create_app(made, store)) as web,
        ):
            collector = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield Stack(made, store, collector, web)
            finally:
                kill_process(collector)


@contextmanager
def honest(address: str) -> Iterator[None]:
    """An audited producer of the other topic, steadily."""
    stop = threading.Event()

    def send() -> None:
        with Producer(bootstrap_servers=address) as producer:
            while not stop.wait(0.02):
                producer.send("other", b"v" * 100)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def forge(address: str, every_ms: int = 0) -> int:
    """Each record as another run of another server; ``every_ms``: and of another time. Returns
    when (ms)."""
    now = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=address, audit=False) as producer:
        for number in range(FORGED):
            server = f"host-{secrets.token_hex(8)}"
            stamp = encode_stamp(Stamp(secrets.token_bytes(8), 0, 0, server))
            at = now - (number * every_ms) % 80_000_000 if every_ms else now
            producer.send("flooded", b"v", timestamp=at, headers=[("tm", stamp)])
    return now


def wait_for_the_first_watermark(running: Stack) -> None:
    deadline = time.monotonic() + 120
    while running.lag_s() > 60:
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("every_ms", [0, W + 1], ids=["runs", "windows"])
def test_fifty_thousand_forged_stamps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_ms: int
) -> None:
    """50,000 records of random runs, made in half a second, cost the collector 109 s, the store
    104 MB, a page 26 MB and 23 s, and another topic's watermark 70 s. So did records of as many
    windows."""
    with stack(tmp_path, monkeypatch) as running:
        port = running.deployment.clusters[0].brokers[0].port
        address = f"127.0.0.1:{port}"
        with honest(address):
            wait_for_the_first_watermark(running)
            running.watch(10)
            before, size = running.watch(QUIET_S), running.store_bytes()
            memory = running.memory()
            hit = forge(address, every_ms)
            during = running.watch(LONG_S)
            grown = running.store_bytes() - size
            spent = during.cpu * LONG_S - before.cpu * LONG_S
            peak = running.memory() / memory
            page, seconds = running.page("flooded", hit - hit % W)
            after = running.watch(QUIET_S)
            with running.store.read() as connection:
                hidden = sum(one.records for one in openings.overflowed(connection))
                rows = queries.windows(connection, EDGE, "flooded", limit=5_000, cells=False)
                other = queries.windows(connection, EDGE, "other", states=["LOSS", "UNKNOWN"])
    told = (
        f"forged {FORGED}, {hidden} of them in overflow, {len(rows)} windows; lag of the other "
        f"topic {before.worst_lag:.1f} -> {during.worst_lag:.1f} -> {after.worst_lag:.1f} s (mean "
        f"{before.mean_lag:.1f} -> {during.mean_lag:.1f} -> {after.mean_lag:.1f}); collector "
        f"{before.cpu:.3f} -> {during.cpu:.3f} -> {after.cpu:.3f} of a core, {spent:.1f} s more; "
        f"store {grown / 1e6:.1f} MB; page {page} bytes in {seconds:.2f} s; peak memory "
        f"{memory / 1e6:.0f} MB x {peak:.2f}; log {(tmp_path / 'collector.log').stat().st_size} "
        "bytes"
    )
    print(told)
    assert hidden >= FORGED * 0.7, told
    # Stamps of long ago are late records: what the topic itself is left to settle for gets longer.
    told_states = {State.UNCLAIMED, State.UNKNOWN, *([State.SETTLING] if every_ms else [])}
    assert {row["state"] for row in rows} <= told_states, told
    assert not other, told
    assert during.worst_lag <= LAG * before.worst_lag, told
    assert spent <= CPU_S, told
    assert grown <= STORE, told
    assert page <= PAGE, told
    assert peak <= MEMORY, told
    assert (tmp_path / "collector.log").stat().st_size <= LOG, told
    assert seconds <= PAGE_S, told
    assert after.worst_lag <= 1.2 * before.worst_lag, told
    assert after.cpu <= 1.2 * before.cpu + 0.01, told
