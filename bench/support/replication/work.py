"""What three brokers are measured by: producing with acks=all, idling, and a replica that begins
with nothing.

All brokers and clients share the machine. Processor time is that of all three brokers together; it
is read from ``/proc`` before and after.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from support.measure import client, log_bytes
from support.replication.clusters import Cluster, cpu_by_broker, create, delete, in_sync
from support.replication.until import until

_MB: Final = 1_000_000
Found = dict[str, float]


@dataclass(frozen=True)
class Work:
    """``options`` are those of a job of :mod:`support.clients`, which takes ``seconds``."""

    name: str
    job: str
    size: int
    options: dict[str, Any] = field(default_factory=dict)


WORKS: Final = (
    # Few wait: Apache Kafka handles one request of a connection after the other, each with a round
    # of both followers, and a run has to end.
    Work(
        "200 B, batch 1",
        "produce",
        200,
        {"batch": 1, "linger_ms": 0, "most_waiting": 400, "chunk": 100},
    ),
    Work("200 B, batch 50", "produce", 200, {"batch": 50, "linger_ms": 5, "most_waiting": 50_000}),
    Work("1,000 B, 16 KB", "produce", 1000, {"batch": 16, "linger_ms": 5, "most_waiting": 50_000}),
    Work("1,000 B", "produce", 1000, {"batch": 10_000, "linger_ms": 5}),
    Work("5,000 msg/s of 200 B", "latency", 200, {"linger_ms": 1, "rate": 5_000}),
)


def produce(cluster: Cluster, work: Work, seconds: float, replicas: int) -> Found:
    """Do the work for so long on a new topic; ``cpu_seconds`` are those of the brokers."""
    topic = f"work-{time.monotonic_ns()}"
    create(cluster, topic, replicas=replicas)
    until(lambda: in_sync(cluster, topic), f"{topic} is in sync")
    before = cpu_by_broker(cluster)
    found = client(
        cluster,
        job=work.job,
        driver="librdkafka",
        acks="all",
        topic=topic,
        size=work.size,
        seconds=seconds,
        **work.options,
    )
    found["cpu_seconds"] = _total(before, cpu_by_broker(cluster))
    found["bytes"] = found["messages"] * work.size
    delete(cluster, topic)
    return found


def warm_up(cluster: Cluster, seconds: float) -> None:
    """Java's compiler must have seen the code of both sides of replication, many times: small
    batches with acks=1, which wait for no follower, then the largest ones with acks=all."""
    create(cluster, "warm")
    options = {"linger_ms": 0, "batch": 1, "most_waiting": 2_000, "seconds": 2 * seconds}
    client(cluster, job="produce", driver="librdkafka", topic="warm", size=200, **options)
    delete(cluster, "warm")
    produce(cluster, WORKS[3], seconds, 3)


def idle(clusters: Mapping[str, Cluster], partitions: int, seconds: float) -> dict[str, Found]:
    """The share of a core that a broker takes with so many replicated partitions and no client:
    the mean and the greatest of the three, all clusters at the same time."""
    for cluster in clusters.values():
        create(cluster, "idle", partitions)
    for name, cluster in clusters.items():
        until(partial(in_sync, cluster, "idle"), f"{name} has {partitions} in sync")
    time.sleep(seconds / 4)
    before, began = {name: cpu_by_broker(each) for name, each in clusters.items()}, time.monotonic()
    time.sleep(seconds)
    found: dict[str, Found] = {}
    for name, cluster in clusters.items():
        after, passed = cpu_by_broker(cluster), time.monotonic() - began
        shares = [(after[number] - before[name][number]) / passed for number in after]
        found[name] = {"mean": sum(shares) / len(shares), "greatest": max(shares)}
    for cluster in clusters.values():
        delete(cluster, "idle")
    return found


def catch_up(cluster: Cluster, megabytes: int) -> Found:
    """Broker 3 loses its replica of a partition with so many bytes while it is stopped. Seconds
    are from its first byte to its last one; processor time is that of all brokers meanwhile."""
    leader, empty = cluster.brokers[1], cluster.brokers[3]
    create(cluster, "behind")
    until(lambda: in_sync(cluster, "behind"), "the topic is in sync")
    empty.stop()
    count = megabytes * 1000
    client(leader, job="produce", driver="frames", topic="behind", count=count, size=1000, batch=50)
    for folder in empty.data.glob("**/behind-0"):
        shutil.rmtree(folder)
    whole = log_bytes(leader.data, "behind")
    empty.start()
    until(lambda: log_bytes(empty.data, "behind") > 0, "the replica has begun")
    had, before, began = log_bytes(empty.data, "behind"), cpu_by_broker(cluster), time.monotonic()
    until(lambda: log_bytes(empty.data, "behind") >= whole, "the replica has caught up", 0.005)
    seconds = time.monotonic() - began
    used = _total(before, cpu_by_broker(cluster))
    delete(cluster, "behind")
    copied = (whole - had) / _MB
    return {"mb": copied, "seconds": seconds, "cpu_seconds": used}


def _total(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    return sum(after.values()) - sum(before.values())
