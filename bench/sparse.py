"""A consumer of many partitions to which a message comes now and then: how long until it has read
the first message of each, how late later ones are, and what they cost.

    python bench/sparse.py [--partitions 2,10,100,1000] [--messages 200] [--json FILE]

One broker without ZooKeeper, topics of ten partitions at most, one message in each. A consumer
without stored offsets starts; when it has read all, single messages go to one partition, each 10 ms
after the one before was read. Ours and confluent-kafka in turn, each a process of its own
with a broker of its own. *Late*
is the time from before ``send`` until the application has the message, the acknowledgement of
acks=all included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

from support.measure import cpu_seconds, machine, table
from support.own_broker import OwnBroker

from tallymark.client import Admin, ConsumerConnector, Producer
from tallymark.client.admin.topic_admin import NewTopic

_CLIENTS: Final = ("ours", "confluent-kafka")
_A_TOPIC: Final = 10
_PATIENCE: Final = 300.0
_COLUMNS: Final = {
    "partitions": "partitions",
    "client": "client",
    "first_s": "all read after s",
    "first_cpu_s": "CPU s until then",
    "p50_ms": "late p50 ms",
    "p99_ms": "p99 ms",
    "client_ms": "client CPU ms a message",
    "broker_ms": "broker",
    "idle_percent": "idle % of a core",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", default="2,10,100,1000")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--idle-seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", nargs=3, metavar=("CLIENT", "SERVERS", "TOPICS"))
    args = parser.parse_args()
    if args.read:
        read(*args.read)
        return
    rows: list[dict[str, Any]] = []
    for partitions, client in product(map(int, args.partitions.split(",")), _CLIENTS):
        with (
            tempfile.TemporaryDirectory(prefix="tallymark-bench-") as folder,
            OwnBroker(Path(folder)) as broker,
        ):
            topics = fill(broker, partitions)
            row = run(broker, client, topics, partitions, args)
            rows.append({"partitions": partitions, "client": client, **row})
    print(table([list(_COLUMNS.values()), *([str(row[key]) for key in _COLUMNS] for row in rows)]))
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


def fill(broker: OwnBroker, partitions: int) -> list[str]:
    """Topics with one message in each partition."""
    counts = {
        f"sparse-{first // _A_TOPIC}": min(_A_TOPIC, partitions - first)
        for first in range(0, partitions, _A_TOPIC)
    }
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, count) for name, count in counts.items()]).check()
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for name, count in counts.items():
            for number in range(count):
                producer.send(name, b"first", partition=number)
        producer.flush(60)
    return list(counts)


def run(
    broker: OwnBroker, client: str, topics: list[str], partitions: int, args: argparse.Namespace
) -> dict[str, float]:
    """One consumer."""
    command = [sys.executable, __file__, "--read", client, broker.bootstrap_servers]
    began = time.monotonic()
    with subprocess.Popen([*command, ",".join(topics)], stdout=subprocess.PIPE) as reader:
        try:
            assert reader.stdout is not None
            arrivals = iter(reader.stdout.readline, b"")
            _wait(arrivals, partitions)
            first = time.monotonic() - began
            used = cpu_seconds(reader.pid)
            time.sleep(1)
            idle = cpu_seconds(reader.pid)
            time.sleep(args.idle_seconds)
            idle = cpu_seconds(reader.pid) - idle
            before = cpu_seconds(reader.pid), cpu_seconds(broker.pid)
            late = sorted(_lateness(broker, topics[0], arrivals, args.messages))
            after = cpu_seconds(reader.pid), cpu_seconds(broker.pid)
        finally:
            reader.kill()
    return {
        "first_s": round(first, 1),
        "first_cpu_s": round(used, 2),
        "p50_ms": round(1000 * late[len(late) // 2], 1),
        "p99_ms": round(1000 * late[int(len(late) * 0.99)], 1),
        "client_ms": round(1000 * (after[0] - before[0]) / len(late), 2),
        "broker_ms": round(1000 * (after[1] - before[1]) / len(late), 2),
        "idle_percent": round(100 * idle / args.idle_seconds, 1),
    }


def _lateness(
    broker: OwnBroker, topic: str, arrivals: Iterator[bytes], count: int
) -> Iterator[float]:
    """Seconds from the sending of a message until it was read."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for _ in range(count):
            sent = time.time()
            producer.send(topic, b"later", partition=0)
            producer.flush(10)
            yield _wait(arrivals, 1) - sent
            time.sleep(0.01)


def _wait(arrivals: Iterator[bytes], count: int) -> float:
    """Until so many messages more were read; when the last one was."""
    at = 0.0
    for _ in range(count):
        line = next(arrivals, b"")
        if not line:
            raise RuntimeError("the consumer has ended")
        at = float(line)
    return at


def read(client: str, servers: str, topics: str) -> None:
    """The consumer's process: prints when it has read each message, until it is killed."""
    names = topics.split(",")
    if client == "ours":
        with ConsumerConnector(bootstrap_servers=servers, group=client) as connector:
            streams = connector.create_message_streams_by_filter("|".join(names))
            for _ in streams[0]:
                print(time.time(), flush=True)
    else:
        from confluent_kafka import Consumer

        begin = {"group.id": client, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": servers, **begin})
        consumer.subscribe(names)
        while True:
            message = consumer.poll(1.0)
            if message is not None and not message.error():
                print(time.time(), flush=True)


if __name__ == "__main__":
    main()
