"""How fast one mirror process copies a backlog, and what that costs: whole batches, and record by
record.

    python bench/mirror.py [--mb 400] [--partitions 4] [--batch 65536] [--codec none] [--only HOW]

Source and target are single brokers on this machine; ZooKeeper coordinates the mirror's group. The
records have 200 B and a stamp. In the second run the key decides the target partition of a record,
so every batch is written anew; in the third, too, without the compiled loops (``TALLYMARK_JIT=0``).
Measured is what comes after the first quarter, when the loops are loaded. The result is checked: as
many records as were sent, and in the first run the same batches.

Three processes share the machine's cores with other load. MB/s is the speed of all three together;
CPU ms/MB is that of the mirror alone, and is right within a third on a busy machine, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from support.measure import cpu_seconds
from support.own_broker import OwnBroker

from tallymark.client.admin.admin import Admin
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings, dump_toml
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.protocol.records.batch import HEADER_SIZE
from tallymark.testing.zookeeper import ZooKeeperServer

RECORD: Final = 200
MB: Final = 1_000_000
RUN: Final = [sys.executable, "-m", "tallymark"]
_PATIENCE: Final = 600.0
_WAYS: Final = ("whole", "by key", "pure, by key")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=400)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--only", choices=_WAYS)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tallymark-bench-") as name,
        ZooKeeperServer(Path(name) / "zookeeper") as zookeeper,
        OwnBroker(Path(name) / "source") as source,
        OwnBroker(Path(name) / "target") as target,
    ):
        count = fill(source, args)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        for how in (args.only,) if args.only else _WAYS:
            with Admin(bootstrap_servers=target.bootstrap_servers) as admin:
                admin.create_topic(f"{how[:2]}.bench", args.partitions)
            copy(Path(name), zookeeper, source, target, how, count)


def fill(source: OwnBroker, args: argparse.Namespace) -> int:
    """Publish the backlog; returns the number of records."""
    count: int = args.mb * MB // RECORD
    with Admin(bootstrap_servers=source.bootstrap_servers) as admin:
        admin.create_topic("bench", args.partitions)
    with Producer(
        bootstrap_servers=source.bootstrap_servers,
        batch_size=args.batch,
        linger_ms=50,
        compression_type=args.codec,
        audit=False,
        stamp=True,
    ) as producer:
        value = bytes(RECORD - 10)
        for number in range(count):
            producer.send("bench", value, key=b"%d" % number, partition=number % args.partitions)
        producer.flush(120)
    return count


def copy(
    folder: Path,
    zookeeper: ZooKeeperServer,
    source: OwnBroker,
    target: OwnBroker,
    how: str,
    count: int,
) -> None:
    name = how[:2]  # each run has its own mirror, and so its own group
    clusters = [
        Cluster(
            name=cluster,
            kind="apache-kafka",
            embedded=False,
            brokers=(BrokerAddress(port=int(broker.bootstrap_servers.split(":")[1])),),
        )
        for cluster, broker in ((f"source-{name}", source), ("target", target))
    ]
    deployment = Deployment(
        data_dir=folder,
        zookeeper=ZooKeeperSettings(port=zookeeper.port),
        clusters=tuple(clusters),
        mirrors=(
            MirrorSettings(
                source=f"source-{name}",
                target="target",
                rename=f"{name}.{{topic}}",
                partitions="keep" if how == "whole" else "by-key",
            ),
        ),
    )
    settings = folder / f"{name}.toml"
    settings.write_text(dump_toml(deployment))
    command = [*RUN, "mirror", "--settings", str(settings)]
    command += ["--from", f"source-{name}", "--to", "target"]
    environment = os.environ | ({"TALLYMARK_JIT": "0"} if how.startswith("pure") else {})
    with (
        SimpleConsumer(bootstrap_servers=target.bootstrap_servers) as consumer,
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            began, at_first, used, before = wait(
                consumer, name, process, count // 4, (source, target)
            )
            ended, at_last, now, after = wait(consumer, name, process, count, (source, target))
            peak = peak_mb(process.pid)
        finally:
            process.terminate()
            process.wait(30)
    check(source, target, name, count)
    megabytes = (at_last - at_first) * RECORD / MB
    seconds = ended - began
    brokers = [f"{1000 * (b - a) / megabytes:.2f}" for a, b in zip(before, after, strict=True)]
    rates = f"{megabytes / seconds:7.0f} MB/s {(at_last - at_first) / seconds:10,.0f} records/s"
    print(
        f"{how:12} {rates}"
        f"   CPU ms/MB: mirror {1000 * (now - used) / megabytes:.2f},"
        f" source {brokers[0]}, target {brokers[1]}   mirror's peak {peak:.0f} MB",
        flush=True,
    )


def check(source: OwnBroker, target: OwnBroker, name: str, count: int) -> None:
    """RuntimeError unless the target has as many records, and the same batches where whole batches
    are copied."""
    found: list[list[bytes]] = []
    for broker, topic in ((source, "bench"), (target, f"{name}.bench")):
        with SimpleConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            if sum(consumer.end_offsets(topic).values()) != count:
                raise RuntimeError(f"{topic} has not {count} records")
            fetched = consumer.fetch(topic, 0, 0, max_bytes=MB)
            found.append([bytes(batch.data[HEADER_SIZE:]) for batch in fetched.batches])
    some = min(map(len, found))
    if (found[0][:some] == found[1][:some]) != (name == "wh"):
        raise RuntimeError(f"{name}.bench was not copied as it was to be")


def peak_mb(pid: int) -> float:
    """The peak memory of the process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MB
    raise RuntimeError("the kernel has no value")


def wait(
    consumer: SimpleConsumer,
    name: str,
    process: subprocess.Popen[bytes],
    count: int,
    brokers: tuple[OwnBroker, ...],
) -> tuple[float, int, float, list[float]]:
    """Wait until the target has ``count`` records; returns the time, the number of records, and the
    CPU time of the mirror and of the brokers."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        arrived = sum(consumer.end_offsets(f"{name}.bench").values())
        if arrived >= count:
            used = [cpu_seconds(broker.pid) for broker in brokers]
            return time.perf_counter(), arrived, cpu_seconds(process.pid), used
        time.sleep(0.02)
    raise RuntimeError("the mirror did not copy all of it")


if __name__ == "__main__":
    main()
