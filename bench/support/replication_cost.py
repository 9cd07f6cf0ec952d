"""Topics with three replicas on three of our brokers: what copying costs, and how long a partition
is not written when its leader goes.

All brokers, ZooKeeper and the client share the machine: compare messages per CPU-second, which are
of the three brokers together. A topic with one replica on the same brokers runs in turn with one of
three (``min.insync.replicas=2``, ``acks=all``). The gap is the longest time between two
acknowledgements of a client that asks for the leader again after 100 ms without an answer.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from support.measure import client, machine, medians, table
from support.own_broker import OwnBroker
from support.replicated import SESSION_MS, Cluster, cluster

from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient

FACTORS: Final = (1, 3)
_ANSWER_SECONDS: Final = 0.3
_PAUSE_SECONDS: Final = 0.1


def works(scale: int) -> list[tuple[str, dict[str, Any]]]:
    """(name, job) of each work."""
    return [
        ("200 B, batch 1", {"count": 3_000 * scale, "size": 200, "batch": 1, "linger_ms": 0}),
        ("200 B, batch 50", {"count": 50_000 * scale, "size": 200, "batch": 50, "linger_ms": 5}),
        ("1,000 B, 16 KB", {"count": 30_000 * scale, "size": 1000, "batch": 16, "linger_ms": 5}),
    ]


def throughput(brokers: Cluster, rounds: int, scale: int) -> str:
    """The table of producing to topics with one and with three replicas."""
    runs: dict[tuple[str, int], list[dict[str, float]]] = {}
    for number in range(rounds):
        for factor in FACTORS:
            brokers.create(f"t-{number}-{factor}", factor, min(2, factor))
            for name, job in works(scale):
                before = brokers.cpu_seconds()
                found = client(
                    brokers,
                    job="produce",
                    driver="librdkafka",
                    acks="all",
                    topic=f"t-{number}-{factor}",
                    **job,
                )
                found["cpu_seconds"] = brokers.cpu_seconds() - before
                found["bytes"] = found["messages"] * job["size"]
                runs.setdefault((name, factor), []).append(found)
    rows = [("produce, acks=all", "replicas", "messages/s", "MB/s", "messages/CPU-s", "of 1")]
    alone: dict[str, float] = {}
    for (name, factor), each in runs.items():
        one = medians(each)
        per_cpu = one["messages"] / max(one["cpu_seconds"], 0.01)
        alone.setdefault(name, per_cpu)
        rate, size = one["messages"] / one["seconds"], one["bytes"] / one["seconds"] / 1e6
        part = f"{per_cpu / alone[name]:.2f}"
        rows.append((name, str(factor), f"{rate:,.0f}", f"{size:.1f}", f"{per_cpu:,.0f}", part))
    return table(rows)


class Prober(threading.Thread):
    """Writes one record after the other with ``acks=all``, and notes when each was acknowledged."""

    def __init__(self, brokers: Cluster, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[float] = []
        self._addresses = [broker.address for broker in brokers.brokers.values()]
        self._by_id = {number: broker.address for number, broker in brokers.brokers.items()}
        self._topic = topic
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._write(self._leader())
            except (OSError, KeyError, AssertionError):
                time.sleep(_PAUSE_SECONDS)

    def leader(self) -> int:
        """The broker that leads the topic's partition."""
        while True:
            for address in self._addresses:
                try:
                    with WireClient(address, timeout=_ANSWER_SECONDS) as wire:
                        asked = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
                        found = wire.ask(asked, 12).topics[0].partitions
                except (OSError, AssertionError):
                    continue
                if found and found[0].leader_id > 0:
                    return found[0].leader_id
            time.sleep(_PAUSE_SECONDS)

    def _leader(self) -> str:
        return self._by_id[self.leader()]

    def _write(self, address: str) -> None:
        records = encode_batch([(None, b"x" * 100, (), 1)])
        part = ProduceRequestPartition(index=0, records=records)
        topic = ProduceRequestTopic(name=self._topic, partition_data=[part])
        asked = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        with WireClient(address, timeout=_ANSWER_SECONDS) as wire:
            while not self._over.is_set():
                if wire.ask(asked, 10).responses[0].partition_responses[0].error_code:
                    time.sleep(_PAUSE_SECONDS)
                    return
                self.acknowledged.append(time.monotonic())
                time.sleep(0.002)

    def longest_gap(self, since: float) -> float:
        """Seconds between two acknowledgements, the later one after ``since``."""
        times = [at for at in self.acknowledged if at > since - 1]
        return max(b - a for a, b in itertools.pairwise(times))

    def finish(self) -> None:
        self._over.set()
        self.join(10)


def failovers(brokers: Cluster, rounds: int) -> str:
    """The table of gaps."""
    faults: dict[str, Callable[[Any], None]] = {
        "clean stop": OwnBroker.stop,
        "kill -9": OwnBroker.kill,
    }
    rows = [("the leader's", "rounds", "median gap, s", "longest, s")]
    brokers.create("gaps", 3, 2)
    prober = Prober(brokers, "gaps")
    prober.start()
    for name, fault in faults.items():
        gaps: list[float] = []
        for _ in range(rounds):
            time.sleep(3)
            victim, began = brokers.brokers[prober.leader()], time.monotonic()
            fault(victim)
            while not prober.acknowledged or prober.acknowledged[-1] < began + 0.5:
                time.sleep(0.05)
            while time.monotonic() < began + 2:
                time.sleep(0.05)
            gaps.append(prober.longest_gap(began))
            victim.start()
        rows.append((name, str(rounds), f"{median(gaps):.2f}", f"{max(gaps):.2f}"))
    prober.finish()
    return table(rows)


def report(scratch: Path, *, quick: bool) -> None:
    """Measure, and print both tables."""
    with cluster(scratch) as brokers:
        print(f"machine: {machine()}; session {SESSION_MS} ms\n", flush=True)
        print(throughput(brokers, 1 if quick else 3, 1 if quick else 4), flush=True)
        print("\n" + failovers(brokers, 2 if quick else 5), flush=True)
