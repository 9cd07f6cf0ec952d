"""The cost of the audit for a producer: runs with and without it alternate, in one go.

    python bench/audit_overhead.py [--quick] [--only tallymark,confluent,kafka-python] [--json FILE]

Audited records are stamped and claimed, and their reports are in the cluster when the clock stops;
unaudited ones have no stamp and are not counted. All producers wait for acks=all and are
idempotent. ``rate kept`` is the ratio of audited to unaudited messages per second at saturation
(median of the ratios of the rounds); it depends on the other load of the machine, which also runs
the broker. CPU is that of the client's process, the least of the rounds. ``added`` is the number of
additional bytes of a message in the log, uncompressed: the stamp, with 12 bytes for the server's
name. Paced runs send 50,000 messages per second; there ``audit CPU`` is the part of a core that the
audit uses. *only errors*: confluent-kafka with ``delivery.report.only.error``. ``--quick`` takes
two minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from support.measure import Running, log_bytes, machine, table, warm_page_cache
from support.own_broker import OwnBroker

from tallymark.client import Admin

SERVER: Final = "web-0123.dc1"
RATE: Final = 50_000
PARTITIONS: Final = 3
_CLIENTS: Final = Path(__file__).parent / "support" / "audited_clients.py"

Results = dict["Workload", dict[bool, list[dict[str, float]]]]


@dataclass(frozen=True)
class Workload:
    """``thousands`` of messages of ``size`` bytes; ``rate`` 0: as fast as possible."""

    client: str
    how: str
    size: int
    thousands: int
    rate: int = 0

    def __str__(self) -> str:
        pace = f", {self.rate:,} msg/s" if self.rate else ""
        return f"{self.client}, {self.how}{pace}"


def workloads(quick: bool) -> Iterator[Workload]:
    """The workloads, about a second each on idle cores."""
    scale = 1 if quick else 3
    for size in (100, 200, 1000):
        yield Workload("tallymark", "send", size, 300 * scale)
        yield Workload("tallymark", "lists", size, 600 * scale)
    for size in (100,) if quick else (100, 200, 1000):
        yield Workload("confluent", "plain", size, 200 * scale)
        yield Workload("confluent", "only errors", size, 200 * scale)
        yield Workload("confluent", "callbacks", size, 200 * scale)
        yield Workload("kafka-python", "send", size, 20 * scale)
    yield Workload("confluent", "plain", 100, 100 * scale, RATE)
    yield Workload("confluent", "only errors", 100, 100 * scale, RATE)
    yield Workload("confluent", "callbacks", 100, 100 * scale, RATE)


def run(broker: Running, work: Workload, audit: bool, topic: str) -> dict[str, float]:
    """The measurements of one run of one producer, with the bytes it added to the log."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    job: dict[str, Any] = {
        "servers": broker.bootstrap_servers,
        "client": work.client,
        "how": work.how,
        "size": work.size,
        "count": work.thousands * 1000,
        "rate": work.rate,
        "audit": audit,
        "topic": topic,
        "server": SERVER,
    }
    ended = subprocess.run(
        [sys.executable, str(_CLIENTS), json.dumps(job)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if ended.returncode:
        raise RuntimeError(f"{work} failed:\n{ended.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ended.stdout)
    found["bytes"] = log_bytes(broker.data, topic) / found["messages"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)
    return found


def run_all(broker: Running, works: Sequence[Workload], rounds: int) -> Results:
    """Run all workloads, audited and unaudited in turn; the first of the two alternates."""
    results: Results = {work: {False: [], True: []} for work in works}
    for number in range(rounds):
        for place, work in enumerate(works):
            for audit in (number % 2 == 0, number % 2 == 1):
                found = run(broker, work, audit, f"r{number}-{place}-{audit}")
                results[work][audit].append(found)
                rate = found["messages"] / found["seconds"]
                print(f"{work}, {work.size} B, audit {audit}: {rate:,.0f} msg/s", file=sys.stderr)
    return results


def report(results: Results) -> tuple[str, list[dict[str, Any]]]:
    """The table, and the same as data."""
    heading = ("producer", "bytes", "msg/s", "audited", "rate kept", "µs CPU/msg", "audited")
    rows: list[Sequence[str]] = [(*heading, "audit CPU", "added")]
    data: list[dict[str, Any]] = []
    for work, runs in results.items():
        rate, cost, size = {}, {}, {}
        for audit, some in runs.items():
            rate[audit] = median(one["messages"] / one["seconds"] for one in some)
            cost[audit] = min(1e6 * one["cpu_seconds"] / one["messages"] for one in some)
            size[audit] = median(one["bytes"] for one in some)
        kept = median(
            plain["seconds"] / audited["seconds"]
            for plain, audited in zip(runs[False], runs[True], strict=True)
        )
        share = work.rate * (cost[True] - cost[False]) / 1e6
        entry: dict[str, Any] = {
            "workload": str(work),
            "size": work.size,
            "messages_per_second": rate[False],
            "audited_messages_per_second": rate[True],
            "rate_kept": kept,
            "us_per_message": cost[False],
            "audited_us_per_message": cost[True],
            "audit_percent_of_a_core": 100 * share if work.rate else None,
            "added_bytes": size[True] - size[False],
        }
        data.append(entry)
        rows.append(
            (
                str(work),
                str(work.size),
                f"{rate[False]:,.0f}",
                f"{rate[True]:,.0f}",
                "" if work.rate else f"{100 * kept:.0f} %",
                f"{cost[False]:.2f}",
                f"{cost[True]:.2f}",
                f"{100 * share:.1f} % of a core" if work.rate else "",
                f"{entry['added_bytes']:.1f}",
            )
        )
    return table(rows), data


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a third of the work, one round")
    parser.add_argument("--only", default="tallymark,confluent,kafka-python")
    parser.add_argument("--rounds", type=int, default=0, help="1 with --quick, else 5")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    options = parser.parse_args()
    wanted = set(options.only.split(","))
    works = [work for work in workloads(options.quick) if work.client in wanted]
    with tempfile.TemporaryDirectory() as folder:
        warm_page_cache(Path(folder), 1 << 30)
        broker = OwnBroker(Path(folder) / "broker")
        broker.start()
        try:
            results = run_all(broker, works, options.rounds or (1 if options.quick else 5))
        finally:
            broker.stop()
    text, data = report(results)
    print(json.dumps(machine()))
    print(text)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "runs": data}, indent=2))


if __name__ == "__main__":
    main()
