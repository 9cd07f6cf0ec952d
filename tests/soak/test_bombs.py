"""A mirror and a collector, each with little memory, while somebody writes batches of few bytes
that hold hundreds of megabytes, and nonsense: both go on, other topics do not wait, nothing is
lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from eventually import eventually
from hostile_batches import bomb, garbage
from mirror_rig import Rig, rig, zookeeper

from tallymark.client import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import AuditSettings, Deployment, dump_toml
from tallymark.processes.child_process import kill_process
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.testing.wire import WireClient
from tallymark_audit.judge.verdicts import State
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import queries

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(900)]

MIB = 1 << 20
W = 5_000
ADDRESS_SPACE = 2_000 * MIB
"""Of each process: threads and libraries take half of it; the mirror had taken 3.3 GB of memory."""
PHASE_S = 15
LATENCY, WATERMARK, MEMORY = 2.5, 2.0, 350 * MIB
"""What the attack may cost: the other topic's mean way to the target and its watermark's mean lag,
as ratios to the time before; and memory, of each process."""


@dataclass
class Stack:
    """What runs, and what it costs."""

    rig: Rig
    deployment: Deployment
    processes: dict[str, subprocess.Popen[bytes]]
    folder: Path

    def peak(self, name: str) -> int:
        """The most memory that the process ever had (Linux)."""
        status = Path(f"/proc/{self.processes[name].pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def watch(self, seconds: float) -> Phase:
        """Look on for a while."""
        lags: list[float] = []
        with self.probe() as latencies, open_store(self.deployment.audit_store) as store:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(0.25)
                with store.read() as connection:
                    marks = {(o.edge, o.topic): o.through for o in queries.overview(connection)}
                through = marks.get(("producer-to-source", "views"), 0)
                lags.append(time.time() - through / 1000)
        return Phase(sum(latencies) / len(latencies), sum(lags) / len(lags), max(lags))

    @contextmanager
    def probe(self) -> Iterator[list[float]]:
        """How long messages of the other topic take to the target, in seconds."""
        found: list[float] = []
        stop = threading.Event()
        servers = {n: self.rig.brokers[n].bootstrap_servers for n in ("source", "target")}

        def run() -> None:
            with (
                Producer(bootstrap_servers=servers["source"]) as producer,
                SimpleConsumer(bootstrap_servers=servers["target"]) as consumer,
            ):
                at = consumer.end_offsets("views")[0]
                while not stop.wait(0.05):
                    began = time.monotonic()
                    producer.send("views", b"v" * 100).result(30)
                    while consumer.end_offsets("views").get(0, 0) <= at:
                        time.sleep(0.01)
                    found.append(time.monotonic() - began)
                    at += 1

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join(60)
            assert not thread.is_alive(), "a message of the other topic never arrived"


@dataclass(frozen=True)
class Phase:
    """Of the other topic, in seconds."""

    latency: float
    lag: float
    worst_lag: float


@dataclass
class Attack:
    """Writes to ``clicks`` until it is left: 64 kB of bombs, each too large for everybody; some
    that are just not; nonsense. ``taken``: how many of them the broker took."""

    address: str
    taken: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Attack:
        self._batches = [*[bomb(250)] * 8, *[bomb(60)] * 4]
        self._batches += [garbage(seed, count=3, last_delta=2) for seed in range(4)]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        with WireClient(self.address, timeout=30) as wire:
            while not self._stop.wait(1.0):
                for data in self._batches:
                    partition = ProduceRequestPartition(index=0, records=data)
                    topic = ProduceRequestTopic(name="clicks", partition_data=[partition])
                    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
                    (answer,) = wire.ask(request, 7).responses
                    self.taken += answer.partition_responses[0].error_code == 0


@contextmanager
def stack(rig: Rig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    rig.start("source", "target")
    audit = AuditSettings(window_ms=W, settle_min_ms=1_000, report_interval_ms=500)
    made = rig.deployment.model_copy(update={"audit": audit, "data_dir": folder / "data"})
    path = folder / "tallymark.toml"
    path.write_text(dump_toml(made))
    monkeypatch.setenv("TALLYMARK_SETTINGS", str(path))
    for topic in ("clicks", "views"):
        rig.topic("source", topic)
    commands = {
        "mirror": ["mirror", "--to", "target"],
        "collector": ["audit", "collect", "--cluster", "source"],
    }
    with ExitStack() as opened:
        processes: dict[str, subprocess.Popen[bytes]] = {}
        for name, words in commands.items():
            log = opened.enter_context((folder / f"{name}.log").open("wb"))
            limited = f'ulimit -v {ADDRESS_SPACE // 1024}; exec "$0" -m tallymark "$@"'
            processes[name] = subprocess.Popen(
                ["/bin/sh", "-c", limited, sys.executable, *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            )
            opened.callback(kill_process, processes[name])
        one = Stack(rig, made, processes, folder)
        sent(one, "views", [b"first"])
        eventually(rig.holds, "views", 1)
        yield one


def sent(stack: Stack, topic: str, values: list[bytes]) -> None:
    """Audited messages."""
    with Producer(bootstrap_servers=stack.rig.brokers["source"].bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(30)


def test_bombs_hold_up_nobody(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 kB of them made the mirror 3.3 GB, and with less memory it died at the same offset again
    and again; it merged six into one batch at the target that no consumer of ours reads."""
    with stack(rig, tmp_path, monkeypatch) as one:
        sent(one, "clicks", [b"before"] * 30)
        one.watch(10)  # warm
        quiet = one.watch(PHASE_S)
        peaks = {name: one.peak(name) for name in one.processes}
        with Attack(rig.brokers["source"].bootstrap_servers) as attack:
            during = one.watch(PHASE_S)
        time.sleep(2 * W / 1000)
        sent(one, "clicks", [b"behind"] * 30)
        after = one.watch(PHASE_S)
        grown = {name: one.peak(name) - peaks[name] for name in one.processes}
        print(f"{attack.taken} bad batches; {quiet=} {during=} {after=}")
        print("memory", {n: (p // MIB, grown[n] // MIB) for n, p in peaks.items()})
        assert {n: p.poll() for n, p in one.processes.items()} == dict.fromkeys(one.processes)
        assert attack.taken > 100
        assert during.latency < LATENCY * quiet.latency
        assert during.lag < WATERMARK * quiet.lag
        assert after.latency < 1.2 * quiet.latency + 0.05
        assert after.lag < 1.2 * quiet.lag + 1
        assert all(size < MEMORY for size in grown.values()), grown
        all_arrived(one, attack.taken)
        as_judged(one)


def all_arrived(stack: Stack, bad: int) -> None:
    """What stood before and behind is at the target, and no two bad batches are one there."""
    servers = stack.rig.brokers["target"].bootstrap_servers
    with SimpleConsumer(bootstrap_servers=servers, client_id="reader") as consumer:
        eventually(lambda: consumer.end_offsets("clicks")[0] >= 60 + bad)
        end, at, good, large = consumer.end_offsets("clicks")[0], 0, 0, 0
        while at < end:
            fetched = consumer.fetch("clicks", 0, at)
            for batch in fetched.batches:
                ratio = batch.header.size < 10_000 and batch.header.codec == "zstd"
                large += ratio
                assert not ratio or batch.header.record_count == 1, "merged"
                good += 0 if ratio else batch.header.record_count
            at = fetched.next_offset
    assert large > 0
    assert good >= 60


def as_judged(stack: Stack) -> None:
    """Every window of the other topic is complete; those before and behind the attack are, too, and
    what could not be read is told with partition and offset."""
    with open_store(stack.deployment.audit_store) as store:

        def states(topic: str) -> list[str]:
            with store.read() as connection:
                found = queries.windows(connection, "producer-to-source", topic)
            # The bombs that can be read say that they are of 1970, and nobody claims them.
            found = [row for row in found if row["window"] > 0]
            return [row["state"] for row in found if row["state"] not in ("OPEN", "SETTLING")]

        eventually(lambda: State.COMPLETE in states("clicks")[:1], seconds=60)
        assert set(states("views")) == {State.COMPLETE}
        assert set(states("clicks")) <= {State.COMPLETE, State.UNKNOWN}
        assert states("clicks")[-1] == State.COMPLETE, "before the attack"
        with store.read() as connection:
            told = [row for row in queries.all_incidents(connection) if row["kind"] == "damaged"]
        assert {(row["topic"], row["partition"]) for row in told} == {("clicks", 0)}
        assert all(row["from_offset"] >= 30 for row in told)
