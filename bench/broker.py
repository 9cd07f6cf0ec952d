"""One broker under load: ours, and Apache Kafka with the same work in the same run.

    python bench/broker.py [--quick] [--against-kafka] [--loop asyncio|uvloop] [--json FILE]
    python bench/broker.py --against-tree FOLDER [--quick] [--rounds 5] [--only produce]
                                                     a broker of another working tree beside it
    python bench/broker.py --brokers 2 [--quick]     one broker, and two as a cluster on this host

On a shared machine, compare messages per CPU-second of the broker's processes. Messages and
megabytes per second are also printed, but are only meaningful on an idle machine. Runs alternate
(ours, the other, the other, ours ...) and medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

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
OURS: Final = "tallymark"


@dataclass(frozen=True)
class Workload:
    """``count`` messages of ``size`` bytes, produced or, where ``reads`` names the workload whose
    topic is read, fetched. ``options`` are those of a job of :mod:`support.clients`."""

    name: str
    driver: str
    count: int
    size: int
    options: dict[str, Any]
    reads: str | None = None

    @property
    def job(self) -> str:
        """That of a client."""
        if self.reads is not None:
            return "consume"
        return "latency" if "rate" in self.options else "produce"

    def times(self, scale: int) -> Workload:
        """The same with ``scale`` times as much work."""
        options = dict(self.options)
        if "seconds" in options:
            options["seconds"] *= scale
        return replace(self, count=self.count * scale, options=options)


_ONE, _FIFTY = {"batch": 1, "linger_ms": 0}, {"batch": 50, "linger_ms": 5}
_NATURAL, _PACED = {"batch": 10_000, "linger_ms": 5}, {"linger_ms": 1, "rate": 50_000, "seconds": 3}
_BY_200_KB, _BY_1_MB = {"fetch_bytes": 200_000}, {"fetch_bytes": 1_000_000}
_MADE: Final = "produce 1,000 B"
_OWN: Final = "produce 1,000 B, our client"
_LARGE: Final = "produce 1,000 B, batch 500 KB, frames"

WORKLOADS: Final = (
    Workload("produce 200 B, batch 1", "librdkafka", 30_000, 200, _ONE),
    Workload("produce 200 B, batch 50", "librdkafka", 250_000, 200, _FIFTY),
    Workload(_MADE, "librdkafka", 200_000, 1000, _NATURAL),
    Workload(_OWN, "tallymark", 20_000, 1000, {"linger_ms": 5}),
    Workload("produce 1,000 B, batch 16 KB, frames", "frames", 100_000, 1000, {"batch": 16}),
    Workload(_LARGE, "frames", 200_000, 1000, {"batch": 500}),
    Workload("fetch 1,000 B by 200 KB", "librdkafka", 200_000, 1000, _BY_200_KB, _MADE),
    Workload("fetch 1,000 B by 200 KB, our client", "tallymark", 20_000, 1000, _BY_200_KB, _OWN),
    Workload("fetch 1,000 B by 200 KB, frames", "frames", 200_000, 1000, _BY_200_KB, _MADE),
    Workload("fetch 1,000 B by 1 MB, frames", "frames", 200_000, 1000, _BY_1_MB, _LARGE),
    Workload("50,000 msg/s of 200 B", "librdkafka", 150_000, 200, _PACED),
)
"""Those of a quick run."""


Runs = dict[str, dict[str, list[dict[str, float]]]]
"""What was measured, by workload and by broker, in rounds."""


def run_all(
    brokers: dict[str, Running], rounds: int, works: Sequence[Workload], scratch: Path
) -> Runs:
    """Every workload on every broker, alternating."""
    results: Runs = {}
    for broker in brokers.values():
        _warm_up(broker)
    for number in range(rounds):
        topics: dict[str, str] = {}
        for place, work in enumerate(works):
            topics[work.name] = topics.get(work.reads or "", f"b{number}-{place}")
            # In turn: whichever is first finds the machine as the other one left it.
            for name in list(brokers)[:: -1 if number % 2 else 1]:
                _tell(f"round {number + 1} of {rounds}: {work.name}, {name}")
                found = _run(brokers[name], work, topics[work.name], scratch)
                results.setdefault(work.name, {}).setdefault(name, []).append(found)
        for topic in sorted(set(topics.values())):
            for broker in brokers.values():
                client(broker, job="delete", topic=topic)
    return results


def _chosen(only: str) -> list[Workload]:
    """The workloads whose names begin so, and those whose topics they read."""
    reads = {each.reads for each in WORKLOADS if each.name.startswith(only)}
    return [each for each in WORKLOADS if each.name.startswith(only) or each.name in reads]


def _tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _warm_up(broker: Running) -> None:
    """Java's compiler must have seen the code."""
    client(broker, job="make", topic="warm")
    for batch, count in ((1, 50_000), (500, 400_000)):
        job = {"job": "produce", "driver": "frames", "topic": "warm", "size": 200}
        client(broker, **job, count=count, batch=batch)
    client(broker, job="delete", topic="warm")


def _run(broker: Running, work: Workload, topic: str, scratch: Path) -> dict[str, float]:
    if work.reads is None:
        client(broker, job="make", topic=topic)
    warm_page_cache(scratch, work.count * work.size)
    if work.job == "latency":
        os.sync()  # else it would wait for earlier writes to the disk
    found = measured(
        broker,
        job=work.job,
        driver=work.driver,
        topic=topic,
        count=work.count,
        size=work.size,
        **work.options,
    )
    if work.reads is None:
        found["overhead_bytes"] = log_bytes(broker.data, topic) / found["messages"] - work.size
    return found


_HEADING: Final = (
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


def report(results: Runs) -> tuple[str, list[Any]]:
    """The table, and the same as data. Ratios are those to the broker beside ours."""
    rows: list[Sequence[str]] = [_HEADING]
    data: list[Any] = []
    sizes = {each.name: each.size for each in WORKLOADS}
    for workload, by_broker in results.items():
        middle = {name: medians(runs) for name, runs in by_broker.items()}
        other = next((found for name, found in middle.items() if name != OURS), None)
        for name, found in middle.items():
            entry = {"workload": workload, "broker": name, **_rates(found), **found}
            if other is not None and name == OURS:
                entry["cpu_ratio"] = _per_cpu(found) / _per_cpu(other)
                entry["speed_ratio"] = _per_second(found) / _per_second(other)
            data.append(entry)
            rows.append(_row(entry, sizes[workload]))
    return table(rows), data


def _rates(found: dict[str, float]) -> dict[str, float]:
    return {
        "messages_per_cpu_second": _per_cpu(found),
        "messages_per_second": _per_second(found),
    }


def _per_second(found: dict[str, float]) -> float:
    return found["messages"] / found["seconds"]


def _per_cpu(found: dict[str, float]) -> float:
    return found["messages"] / max(found["cpu_seconds"], 1e-9)


def _row(entry: dict[str, Any], size: int) -> tuple[str, ...]:
    per_cpu, per_second = entry["messages_per_cpu_second"], entry["messages_per_second"]
    return (
        entry["workload"],
        entry["broker"],
        f"{per_cpu:,.0f}",
        f"{entry['cpu_ratio']:.2f}" if "cpu_ratio" in entry else "",
        f"{1e6 / per_cpu:.2f}",
        f"{per_second:,.0f}",
        f"{per_second * size / 1e6:,.0f}",
        f"{entry['speed_ratio']:.2f}" if "speed_ratio" in entry else "",
        f"{entry['overhead_bytes']:.2f}" if "overhead_bytes" in entry else "",
        f"{entry['p50_ms']:.1f}/{entry['p99_ms']:.1f}" if "p99_ms" in entry else "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less work, one round")
    beside = parser.add_mutually_exclusive_group()
    beside.add_argument("--against-kafka", action="store_true", help="Apache Kafka as well")
    beside.add_argument("--against-tree", type=Path, help="ours of another working tree as well")
    parser.add_argument("--only", default="", help="workloads whose names begin so")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    parser.add_argument("--brokers", type=int, default=1, help="several on this host, beside one")
    parser.add_argument("--rounds", type=int, default=0, help="1 with --quick, else 2")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    scale, rounds = (1, args.rounds or 1) if args.quick else (3, args.rounds or 2)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        scratch = Path(name)
        warm_page_cache(scratch, _GB)
        if args.brokers > 1:
            found = compare(args.brokers, rounds, scale, scratch, args.loop)
            print(f"{json.dumps(machine())}\n{found}")
            return
        works = [each.times(scale) for each in _chosen(args.only)]
        with ExitStack() as stack:
            own = stack.enter_context(OwnBroker(scratch / "own", loop=args.loop))
            brokers: dict[str, Running] = {OURS: own}
            if args.against_kafka:
                try:
                    brokers["kafka"] = stack.enter_context(apache_kafka(scratch / "kafka"))
                except NotAvailableError as error:
                    print(f"without Apache Kafka: {error}")
            if args.against_tree:
                other = OwnBroker(scratch / "other", loop=args.loop, tree=args.against_tree)
                brokers[args.against_tree.name] = stack.enter_context(other)
            results = run_all(brokers, rounds, works, scratch)
    text, data = report(results)
    facts = {**machine(), "loop": args.loop, "rounds": rounds, "scale": scale}
    print(json.dumps(facts))
    print(text)
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "results": data}, indent=1) + "\n")


if __name__ == "__main__":
    main()
