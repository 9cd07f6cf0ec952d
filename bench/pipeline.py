"""The latency of a message from the publisher to a reader of the aggregate cluster.

    python bench/pipeline.py [--quick] [--rate 20000] [--against-kafka] [--json FILE]

Publisher → source broker → mirror → aggregate broker → reader, each a process of its own on this
machine, at a steady rate of stamped messages of 200 bytes. Latency is the time from when a message
was due to be sent (each millisecond has its part of the rate) until the application reads it; the
first third of the messages is left out. ``late`` is the number of milliseconds whose messages were
sent over 0.1 s late: with more than a few, the machine is the limit and not the pipeline. The
paper's pipeline took 10 seconds on average.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from support.apache_kafka import apache_kafka
from support.measure import Running, cpu_seconds, machine, table, warm_page_cache
from support.own_broker import OwnBroker

from tallymark.client import Admin
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings, dump_toml
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.processes.apache_kafka import NotAvailableError
from tallymark.testing.zookeeper import ZooKeeperServer

_ENDS: Final = Path(__file__).parent / "support" / "pipeline_ends.py"
_TOPIC: Final = "pipeline"
_PARTITIONS: Final = 4
_SIZE: Final = 200


def run(
    folder: Path, zookeeper: ZooKeeperServer, brokers: Mapping[str, Running], args: Any
) -> dict[str, float]:
    """One run over a pair of brokers: percentiles, and the CPU of each part in cores."""
    seconds = args.seconds or (12 if args.quick else 45)
    for broker in brokers.values():
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(_TOPIC, _PARTITIONS)
    source, target = (brokers[name].bootstrap_servers for name in ("source", "target"))
    common = {"topic": _TOPIC, "partitions": _PARTITIONS, "size": _SIZE, "rate": args.rate}
    count = args.rate // 1000 * 1000 * seconds
    with ExitStack() as opened:
        mirror = opened.enter_context(_mirror(folder, zookeeper, brokers))
        reader = opened.enter_context(_end(job="follow", servers=target, count=count, **common))
        assert reader.stdout is not None
        reader.stdout.readline()
        parts = {"mirror": mirror.pid, **{name: one.pid for name, one in brokers.items()}}
        before = {name: cpu_seconds(pid) for name, pid in parts.items()}
        publisher = opened.enter_context(
            _end(job="publish", servers=source, seconds=seconds, linger_ms=args.linger_ms, **common)
        )
        sent = _result(publisher)
        found = _result(reader)
        used = {name: cpu_seconds(pid) - before[name] for name, pid in parts.items()}
    used |= {"publisher": sent["cpu_seconds"], "reader": found["cpu_seconds"]}
    cores = {f"{name}_cores": spent / sent["seconds"] for name, spent in used.items()}
    rate = sent["messages"] / sent["seconds"]
    return {**found, **cores, "messages_per_second": rate, "late_ticks": sent["late_ticks"]}


@contextmanager
def _mirror(
    folder: Path, zookeeper: ZooKeeperServer, brokers: Mapping[str, Running]
) -> Iterator[subprocess.Popen[bytes]]:
    deployment = Deployment(
        data_dir=folder,
        zookeeper=ZooKeeperSettings(port=zookeeper.port),
        clusters=tuple(
            Cluster(
                name=name,
                kind="apache-kafka",  # both kinds run without ZooKeeper here
                embedded=False,
                chroot=f"/{folder.name}-{name}",
                brokers=(BrokerAddress(port=int(one.bootstrap_servers.rpartition(":")[2])),),
            )
            for name, one in brokers.items()
        ),
        mirrors=(MirrorSettings(source="source", target="target"),),
    )
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.toml"
    settings.write_text(dump_toml(deployment))
    command = [sys.executable, "-m", "tallymark", "mirror", "--settings", str(settings)]
    command += ["--from", "source", "--to", "target"]
    with (
        (folder / "mirror.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _end(**job: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(_ENDS), json.dumps(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _result(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate(timeout=600)
    if process.returncode:
        raise SystemExit(f"{process.args} failed")
    return json.loads(out.splitlines()[-1])


def report(results: Mapping[str, dict[str, float]]) -> str:
    """One line for each kind of broker."""
    heading = ("brokers", "msg/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "late")
    cores = ("publisher", "source", "mirror", "target", "reader")
    rows: list[Sequence[str]] = [(*heading, *(f"cores: {name}" for name in cores))]
    for name, found in results.items():
        times = (f"{found[key]:.0f}" for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms"))
        used = (f"{found[f'{part}_cores']:.2f}" for part in cores)
        late = f"{found['late_ticks']:.0f}"
        rows.append((name, f"{found['messages_per_second']:,.0f}", *times, late, *used))
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="12 seconds instead of 45")
    parser.add_argument("--seconds", type=int, default=0, help="how long is published")
    parser.add_argument("--rate", type=int, default=20_000, help="messages a second")
    parser.add_argument("--linger-ms", type=int, default=5, help="of the publisher")
    parser.add_argument("--against-kafka", action="store_true", help="Apache Kafka as well")
    parser.add_argument("--folder", type=Path, help="where data is written")
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    if args.rate < 1000:
        parser.error("--rate is 1000 or more: some messages each millisecond")
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="tallymark-bench-") as name:
        scratch = Path(name)
        warm_page_cache(scratch, 1 << 30)
        makers: dict[str, Any] = {"tallymark": OwnBroker}
        if args.against_kafka:
            makers["Apache Kafka"] = apache_kafka
        with ZooKeeperServer(scratch) as zookeeper:
            for number, (kind, make) in enumerate(makers.items()):
                folder = scratch / f"run{number}"
                try:
                    with make(folder / "source") as source, make(folder / "target") as target:
                        brokers = {"source": source, "target": target}
                        results[kind] = run(folder, zookeeper, brokers, args)
                except NotAvailableError as error:
                    print(f"without Apache Kafka: {error}")
    facts = {**machine(), "rate": args.rate, "size": _SIZE, "partitions": _PARTITIONS}
    print(json.dumps(facts))
    print(report(results))
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
