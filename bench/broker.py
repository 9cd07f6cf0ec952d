"""One broker under load: ours, and Apache Kafka with the same work in the same run.

    python bench/broker.py [--quick] [--against-kafka] [--loop asyncio|uvloop] [--json FILE]
    python bench/broker.py --brokers 2 [--quick]     one broker, and two as a cluster on this host
    python bench/broker.py --replicas [--quick]      three brokers, topics with three replicas

On a shared machine, compare messages per CPU-second of the broker's processes. Messages and
megabytes per second are also printed, but are only meaningful on an idle machine. Runs alternate
(ours, Apache Kafka, ours, Apache Kafka ...) and medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from support import replication_cost
from support.apache_kafka import apache_kafka
from support.broker_cores import compare
from support.measure import (
    Running,
    client,
    log_bytes,
    machine,
    measured,
    medians,
    table,
    warm_page_cache,
)
from support.own_broker import OwnBroker

from tallymark.processes.apache_kafka import NotAvailableError

_GB: Final = 1024**3


@dataclass(frozen=True)
class Workload:
    """``count`` messages of ``size`` bytes; ``reads`` names the workload whose topic is read."""

    name: str
    job: str
    driver: str
    count: int
    size: int
    options: dict[str, Any] = field(default_factory=dict)
    reads: str | None = None


def workloads(scale: int) -> list[Workload]:
    """The workloads; ``scale`` 1 is for a quick run, 4 for a full one."""
    one, fifty = {"batch": 1, "linger_ms": 0}, {"batch": 50, "linger_ms": 5}
    natural, fetch = {"batch": 10_000, "linger_ms": 5}, {"fetch_bytes": 200_000}
    produce = [
        Workload("produce 200 B, batch 1", "produce", "librdkafka", 30_000 * scale, 200, one),
        Workload("produce 200 B, batch 50", "produce", "librdkafka", 250_000 * scale, 200, fifty),
        Workload("produce 1,000 B", "produce", "librdkafka", 200_000 * scale, 1000, natural),
        Workload(
            "produce 1,000 B, our client",
            "produce",
            "tallymark",
            20_000 * scale,
            1000,
            {"linger_ms": 5},
        ),
        Workload(
            "produce 1,000 B, batch 16 KB, frames",
            "produce",
            "frames",
            100_000 * scale,
            1000,
            {"batch": 16},
        ),
        Workload(
            "produce 1,000 B, batch 500 KB, frames",
            "produce",
            "frames",
            200_000 * scale,
            1000,
            {"batch": 500},
        ),
    ]
    consume = [
        Workload(
            "fetch 1,000 B by 200 KB",
            "consume",
            "librdkafka",
            200_000 * scale,
            1000,
            fetch,
            "produce 1,000 B",
        ),
        Workload(
            "fetch 1,000 B by 200 KB, our client",
            "consume",
            "tallymark",
            20_000 * scale,
            1000,
            fetch,
            "produce 1,000 B, our client",
        ),
        Workload(
            "fetch 1,000 B by 200 KB, frames",
            "consume",
            "frames",
            200_000 * scale,
            1000,
            fetch,
            "produce 1,000 B",
        ),
        Workload(
            "fetch 1,000 B by 1 MB, frames",
            "consume",
            "frames",
            200_000 * scale,
            1000,
            {"fetch_bytes": 1_000_000},
            "produce 1,000 B, batch 500 KB, frames",
        ),
    ]
    paced = {"linger_ms": 1, "rate": 50_000, "seconds": 3 * scale}
    return [
        *produce,
        *consume,
        Workload("50,000 msg/s of 200 B", "latency", "librdkafka", 150_000 * scale, 200, paced),
    ]


def run_all(
    brokers: dict[str, Running], rounds: int, scale: int, scratch: Path
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Every workload on every broker, alternating."""
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for broker in brokers.values():  # a warm-up: Java's compiler must have seen the code
        client(broker, job="make", topic="warm")
        for batch, count in ((1, 50_000), (500, 400_000)):
            client(
                broker,
                job="produce",
                driver="frames",
                topic="warm",
                count=count,
                size=200,
                batch=batch,
            )
        client(broker, job="delete", topic="warm")
    for number in range(rounds):
        topics: dict[str, str] = {}
        for place, workload in enumerate(workloads(scale)):
            topic = topics[workload.name] = topics.get(workload.reads or "", f"b{number}-{place}")
            for name, broker in brokers.items():
                if workload.reads is None:
                    client(broker, job="make", topic=topic)
                warm_page_cache(scratch, workload.count * workload.size)
                if workload.job == "latency":
                    os.sync()  # else it would wait for earlier writes to the disk
                found = measured(
                    broker,
                    job=workload.job,
                    driver=workload.driver,
                    topic=topic,
                    count=workload.count,
                    size=workload.size,
                    **workload.options,
                )
                if workload.reads is None:
                    stored = log_bytes(broker.data, topic) / found["messages"]
                    found["overhead_bytes"] = stored - workload.size
                results.setdefault(workload.name, {}).setdefault(name, []).append(found)
        for topic in sorted(set(topics.values())):
            for broker in brokers.values():
                client(broker, job="delete", topic=topic)
    return results


def report(results: dict[str, dict[str, list[dict[str, float]]]]) -> tuple[str, list[Any]]:
    """The table, and the same as data."""
    rows: list[Sequence[str]] = [
        (
            "workload",
            "broker",
            "msg/CPU-s",
            "ratio",
            "us CPU/msg",
            "msg/s",
            "MB/s",
            "ratio",
            "overhead B",
            "p50/p99 ms",
        )
    ]
    data: list[Any] = []
    sizes = {each.name: each.size for each in workloads(1)}
    for workload, by_broker in results.items():
        middle = {name: medians(runs) for name, runs in by_broker.items()}
        other = middle.get("kafka")
        for name, found in middle.items():
            per_cpu = found["messages"] / max(found["cpu_seconds"], 1e-9)
            per_second = found["messages"] / found["seconds"]
            entry = {
                "workload": workload,
                "broker": name,
                "messages_per_cpu_second": per_cpu,
                "messages_per_second": per_second,
                **found,
            }
            ratios = ("", "")
            if other is not None and name != "kafka":
                entry["cpu_ratio"] = per_cpu * other["cpu_seconds"] / other["messages"]
                entry["speed_ratio"] = per_second * other["seconds"] / other["messages"]
                ratios = (f"{entry['cpu_ratio']:.2f}", f"{entry['speed_ratio']:.2f}")
            data.append(entry)
            latency = f"{found['p50_ms']:.1f}/{found['p99_ms']:.1f}" if "p99_ms" in found else ""
            overhead = f"{found['overhead_bytes']:.2f}" if "overhead_bytes" in found else ""
            rows.append(
                (
                    workload,
                    name,
                    f"{per_cpu:,.0f}",
                    ratios[0],
                    f"{1e6 / per_cpu:.2f}",
                    f"{per_second:,.0f}",
                    f"{per_second * sizes[workload] / 1e6:,.0f}",
                    ratios[1],
                    overhead,
                    latency,
                )
            )
    return table(rows), data


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less work, one round")
    parser.add_argument("--against-kafka", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--brokers", type=int, default=1, help="several on this host, beside one")
    parser.add_argument("--replicas", action="store_true", help="three brokers that copy")
    parser.add_argument("--rounds", type=int, default=0, help="1 with --quick, else 2")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    scale, rounds = (1, args.rounds or 1) if args.quick else (3, args.rounds or 2)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        scratch = Path(name)
        warm_page_cache(scratch, _GB)
        if args.replicas:
            replication_cost.report(scratch, quick=args.quick)
            return
        if args.brokers > 1:
            found = compare(args.brokers, rounds, scale, scratch, args.loop)
            print(f"{json.dumps(machine())}\n{found}")
            return
        own = OwnBroker(scratch / "own", loop=args.loop)
        brokers: dict[str, Running] = {"tallymark": own}
        kafka = apache_kafka(scratch / "kafka") if args.against_kafka else None
        try:
            own.start()
            if kafka is not None:
                try:
                    kafka.start()
                    brokers["kafka"] = kafka
                except NotAvailableError as error:
                    print(f"without Apache Kafka: {error}")
            results = run_all(brokers, rounds, scale, scratch)
        finally:
            own.stop()
            if kafka is not None:
                kafka.stop()
    text, data = report(results)
    facts = {**machine(), "loop": args.loop, "rounds": rounds, "scale": scale}
    print(json.dumps(facts))
    print(text)
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "results": data}, indent=1) + "\n")


if __name__ == "__main__":
    main()
