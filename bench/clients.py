"""Our client beside confluent-kafka, kafka-python and aiokafka: the same work, in the same run.

    python bench/clients.py [--quick] [--only produce,consume,idle] [--without-kafka] [--json FILE]

Runs against our broker and Apache Kafka. Clients take turns, and each run is a process of its own;
medians are shown. All producers wait for acks=all and are idempotent. ``ours is`` shows how many
times as fast our client was, and how many times as much CPU the other one used, at the same broker.
Messages per second depend on the other load of the machine, which also runs the broker; the CPU
time of a message, in the client and in the broker, depends on it much less. ``--quick`` takes three
minutes, a full run twelve.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.apache_kafka import apache_kafka
from support.measure import Running, cpu_seconds, machine, medians, table, warm_page_cache
from support.own_broker import OwnBroker

from tallymark.client import Admin
from tallymark.processes.apache_kafka import NotAvailableError

SIZE: Final = 200
LIST: Final = 10_000
"""Values of one call of send_many."""
OURS: Final = "tallymark"
_PEERS: Final = Path(__file__).parent / "support" / "peers.py"

# Thousands of messages of one run at scale 1: about two seconds on two quiet cores.
_SEND: Final = {OURS: 800, "confluent-kafka": 400, "kafka-python": 30, "aiokafka": 90}
_LISTS: Final = {OURS: 1200, "confluent-kafka": 400}
_READ: Final = {OURS: 1200, "confluent-kafka": 400, "kafka-python": 100, "aiokafka": 180}
_READ_LISTS: Final = {
    OURS: 1500,
    "tallymark, simple": 1500,
    "confluent-kafka": 600,
    "kafka-python": 120,
    "aiokafka": 500,
}
_READ_DIFFERENT: Final = {OURS: 600, "tallymark, compiled": 1500, "confluent-kafka": 600}
_TO_READ: Final = "to-read"


@dataclass(frozen=True)
class Workload:
    """The same work ``how`` for all clients that can do it; ``batch`` 0: each client's default;
    ``differ``: messages of 100 to 300 bytes."""

    name: str
    job: str
    how: str
    counts: Mapping[str, int]
    batch: int = 0
    stamped: bool = False
    partitions: int = 1
    differ: bool = False


def workloads(quick: bool) -> Iterator[Workload]:
    """The workloads; counts are in thousands."""
    for stamped in (True,) if quick else (True, False):
        kind = "stamped" if stamped else "no stamps"
        for batch, name in ((50, "batches of 50"), (0, "natural batches")):
            yield Workload(f"send, {name}, {kind}", "produce", "send", _SEND, batch, stamped)
            if batch and stamped:
                name += " on 4 partitions"
                yield Workload(f"send, {name}, {kind}", "produce", "send", _SEND, batch, True, 4)
        yield Workload(f"lists of {LIST:,}, {kind}", "produce", "list", _LISTS, 0, stamped)
    yield Workload("read message by message", "consume", "single", _READ)
    yield Workload("read lists", "consume", "list", _READ_LISTS)
    yield Workload("read lists, sizes differ", "consume", "list", _READ_DIFFERENT, differ=True)


def run_all(
    brokers: Mapping[str, Running], wanted: set[str], rounds: int, scale: int
) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    """(workload, broker, client, measurements) of every run; clients take turns."""
    for number in range(rounds):
        for place, work in enumerate(workloads(scale == 1)):
            if work.job not in wanted:
                continue
            for name, broker in brokers.items():
                for peer, thousands in work.counts.items():
                    topic = f"{_TO_READ}-different" if work.differ else _TO_READ
                    if work.job == "produce":
                        topic = f"r{number}-{place}-{peer}"
                        make(broker, topic, work.partitions)
                    before = cpu_seconds(broker.pid)
                    found = peer_run(
                        broker,
                        job=work.job,
                        client=peer,
                        how=work.how,
                        topic=topic,
                        count=thousands * 1000 * scale,
                        batch=work.batch,
                        stamped=work.stamped,
                        differ=work.differ,
                    )
                    found["broker_cpu_seconds"] = cpu_seconds(broker.pid) - before
                    yield work.name, name, peer, found
                    if work.job == "produce":
                        delete(broker, topic)


def prepare(broker: Running, scale: int) -> None:
    """Fill the topics to be read: stamped messages in batches as our producer makes them. This also
    warms up both brokers and Java's compiler."""
    for topic, differ in ((_TO_READ, False), (f"{_TO_READ}-different", True)):
        make(broker, topic)
        peer_run(
            broker,
            job="produce",
            client=OURS,
            how="send",
            topic=topic,
            count=max(*_READ.values(), *_READ_LISTS.values()) * 1000 * scale,
            batch=0,
            stamped=True,
            differ=differ,
        )


def make(broker: Running, topic: str, partitions: int = 1) -> None:
    """Create a topic."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions)


def delete(broker: Running, topic: str) -> None:
    """Delete a topic, so that its memory can be used again."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topic(topic)


def peer_run(broker: Running, **job: Any) -> dict[str, float]:
    """One run of :mod:`support.peers`."""
    more = {"servers": broker.bootstrap_servers, "size": SIZE, "list": LIST}
    ended = subprocess.run(
        [sys.executable, str(_PEERS), json.dumps({**more, "number": uuid.uuid4().hex, **job})],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if ended.returncode:
        raise RuntimeError(f"{job} failed:\n{ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def idle(broker: Running, seconds: int) -> str:
    """The cost of an idle producer and an idle consumer of each client."""
    make(broker, "idle")
    rows: list[Sequence[str]] = [("client", "% of a core, idle", "MB")]
    for peer in _SEND:
        found = peer_run(broker, job="idle", client=peer, topic="idle", seconds=seconds)
        rows.append((peer, f"{found['idle_percent']:.2f}", f"{found['rss_mb']:.0f}"))
    return table(rows)


def report(results: Mapping[tuple[str, str, str], Sequence[dict[str, float]]]) -> tuple[str, Any]:
    """The table, and the same as data."""
    heading = ("workload", "broker", "client", "msg/s", "µs CPU/msg", "broker's", "ours is")
    rows: list[Sequence[str]] = [(*heading, "peak MB")]
    data: list[Any] = []
    middle = {key: medians(runs) for key, runs in results.items()}
    for (workload, broker, peer), found in middle.items():
        rate = found["messages"] / found["seconds"]
        cost = 1e6 * found["client_cpu_seconds"] / found["messages"]
        brokers = 1e6 * found["broker_cpu_seconds"] / found["messages"]
        entry = {"workload": workload, "broker": broker, "client": peer, **found}
        entry |= {"messages_per_second": rate, "client_us_per_message": cost}
        entry["broker_us_per_message"] = brokers
        ratio = ""
        if not peer.startswith(OURS):
            own = middle[workload, broker, OURS]
            entry["speed_ratio"] = own["messages"] / own["seconds"] / rate
            own_cost = 1e6 * own["client_cpu_seconds"] / own["messages"]
            entry["cpu_ratio"] = cost / own_cost
            ratio = f"{entry['speed_ratio']:.1f} / {entry['cpu_ratio']:.1f}"
        data.append(entry)
        memory = f"{found['rss_mb']:.0f} (+{found['rss_mb'] - found['base_mb']:.0f})"
        numbers = (f"{rate:,.0f}", f"{cost:.2f}", f"{brokers:.2f}", ratio, memory)
        rows.append((workload, broker, peer, *numbers))
    return table(rows), data


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="half of the work, one round, stamped only"
    )
    parser.add_argument("--only", default="produce,consume,idle", help="some of it")
    parser.add_argument("--without-kafka", action="store_true", help="our broker only")
    parser.add_argument("--rounds", type=int, default=0, help="1 with --quick, else 2")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    wanted, rounds = set(args.only.split(",")), args.rounds or (1 if args.quick else 2)
    scale = 1 if args.quick else 2
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        scratch = Path(name)
        warm_page_cache(scratch, 1 << 30)
        own = OwnBroker(scratch / "own")
        kafka = None if args.without_kafka else apache_kafka(scratch / "kafka")
        try:
            own.start()
            brokers: dict[str, Running] = {"tallymark": own}
            if kafka is not None:
                try:
                    kafka.start()
                    brokers["Apache Kafka"] = kafka
                except NotAvailableError as error:
                    print(f"without Apache Kafka: {error}")
            for broker in brokers.values():
                prepare(broker, scale)
            results: dict[tuple[str, str, str], list[dict[str, float]]] = {}
            for *key, found in run_all(brokers, wanted, rounds, scale):
                results.setdefault((key[0], key[1], key[2]), []).append(found)
                if os.environ.get("BENCH_VERBOSE"):
                    print(key, found, file=sys.stderr)
            resting = idle(own, 4 if args.quick else 10) if "idle" in wanted else ""
        finally:
            own.stop()
            if kafka is not None:
                kafka.stop()
    text, data = report(results)
    facts = {**machine(), "rounds": rounds, "scale": scale, "size": SIZE}
    print(json.dumps(facts))
    print(text + "\n\n" + resting)
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "results": data}, indent=1) + "\n")


if __name__ == "__main__":
    main()
