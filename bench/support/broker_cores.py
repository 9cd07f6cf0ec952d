"""What a second broker on the same host brings: the same work through one and through several.

Each broker is pinned to a core of its own, and each has a client process of its own, which sends
prepared requests to a partition there. Clients are pinned to the cores that are left; where none
are, they share the brokers' cores, and the rate says little: then compare the messages per
CPU-second. All brokers are one cluster of one ZooKeeper.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from support.measure import client, cpu_seconds, medians, table
from support.own_broker import OwnBroker

from tallymark.client import Admin, NewTopic
from tallymark.processes.free_ports import free_ports
from tallymark.processes.zookeeper_server import ZooKeeperServer


@dataclass(frozen=True)
class Work:
    """``count`` messages of ``size`` bytes through each broker."""

    name: str
    job: str
    count: int
    size: int
    options: dict[str, Any] = field(default_factory=dict)


def works(scale: int) -> list[Work]:
    """The work; the topics are one for each size, so that what is fetched was produced before."""
    return [
        Work("produce 200 B, batch 1", "produce", 10_000 * scale, 200, {"batch": 1}),
        Work("produce 200 B, batch 50", "produce", 250_000 * scale, 200, {"batch": 50}),
        Work("produce 1,000 B, batch 16 KB", "produce", 100_000 * scale, 1000, {"batch": 16}),
        Work("fetch 1,000 B by 200 KB", "consume", 100_000 * scale, 1000, {"fetch_bytes": 200_000}),
    ]


def split_cores(cores: Sequence[int], brokers: int) -> tuple[list[int], list[int]]:
    """The core of each broker, and those of the clients: the others, or all if there is none."""
    own = [cores[number % len(cores)] for number in range(brokers)]
    left = [core for core in cores if core not in own]
    return own, left or list(cores)


def compare(brokers: int, rounds: int, scale: int, scratch: Path, loop: str) -> str:
    """The table of one broker and of ``brokers``, which take turns."""
    results: dict[tuple[str, int], list[dict[str, float]]] = {}
    for number in range(rounds):
        for count in (1, brokers):
            folder = scratch / f"{number}-{count}"
            for name, found in _cluster_runs(count, scale, folder, loop):
                results.setdefault((name, count), []).append(found)
    return cores_table({key: medians(runs) for key, runs in results.items()})


def cores_table(found: dict[tuple[str, int], dict[str, float]]) -> str:
    """(work, brokers) -> measures, as a table with each row's ratio to one broker."""
    heading = ("workload", "brokers", "msg/s", "ratio", "msg/CPU-s", "ratio", "cores in use")
    rows: list[Sequence[str]] = [heading]
    for (name, brokers), each in sorted(found.items()):
        alone = found[name, 1]
        rate, per_cpu = _rates(each)
        rate_alone, per_cpu_alone = _rates(alone)
        more = ("", "")
        if brokers > 1:
            more = (f"{rate / rate_alone:.2f}", f"{per_cpu / per_cpu_alone:.2f}")
        used = f"{each['cpu_seconds'] / each['seconds']:.2f}"
        rows.append((name, str(brokers), f"{rate:,.0f}", more[0], f"{per_cpu:,.0f}", more[1], used))
    return table(rows)


def _rates(each: dict[str, float]) -> tuple[float, float]:
    return each["messages"] / each["seconds"], each["messages"] / max(each["cpu_seconds"], 0.01)


def _cluster_runs(
    count: int, scale: int, folder: Path, loop: str
) -> Iterator[tuple[str, dict[str, float]]]:
    own_cores, client_cores = split_cores(sorted(os.sched_getaffinity(0)), count)
    with ExitStack() as stack:
        (port,) = free_ports(1)
        zookeeper = stack.enter_context(ZooKeeperServer(folder / "zookeeper", port=port))
        brokers = []
        for number, core in enumerate(own_cores):
            broker = OwnBroker(
                folder / f"broker-{number}",
                {"broker.id": str(number), "zookeeper.connect": zookeeper.connect},
                loop=loop,
            )
            brokers.append(stack.enter_context(broker))
            psutil.Process(broker.pid).cpu_affinity([core])
        _make_topics(brokers)
        pool = stack.enter_context(ThreadPoolExecutor(count))
        for work in works(scale):
            before = sum(cpu_seconds(broker.pid) for broker in brokers)
            runs = [
                pool.submit(_run, broker, number, work, client_cores)
                for number, broker in enumerate(brokers)
            ]
            found = [each.result() for each in runs]
            after = sum(cpu_seconds(broker.pid) for broker in brokers)
            yield (
                work.name,
                {
                    "messages": sum(each["messages"] for each in found),
                    "seconds": max(each["seconds"] for each in found),
                    "cpu_seconds": after - before,
                },
            )


def _make_topics(brokers: Sequence[OwnBroker]) -> None:
    """Topics of one partition for each size and broker, placed there."""
    topics = [
        NewTopic(_topic(work.size, number), assignment={0: [number]})
        for work in works(1)
        for number in range(len(brokers))
    ]
    unique = {topic.name: topic for topic in topics}
    with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
        admin.create_topics(unique.values())


def _topic(size: int, broker: int) -> str:
    return f"size-{size}-at-{broker}"


def _run(broker: OwnBroker, number: int, work: Work, cores: Sequence[int]) -> dict[str, float]:
    # A new process inherits the cores of the thread that starts it.
    os.sched_setaffinity(0, cores)
    return client(
        broker,
        job=work.job,
        driver="frames",
        topic=_topic(work.size, number),
        count=work.count,
        size=work.size,
        **work.options,
    )
