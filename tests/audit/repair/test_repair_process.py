"""A repair from beginning to end, on real brokers: a mirror that renames its topic leaves records
out, the collectors find that, the command copies exactly those, and the windows become COMPLETE."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from collected_store import collected_store
from eventually import eventually

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    Mirror,
    dump_toml,
)
from tallymark.protocol.murmur2 import partition_of
from tallymark.protocol.records.batch import Record
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.repair.plan_file import VERSION
from tallymark_audit.store import Store
from tallymark_audit.store.reading import queries

pytestmark = pytest.mark.process
EDGE = "dc1-to-aggregate"
NAMES = ("dc1", "aggregate")
COPY = "dc1.orders"
PARTITIONS = {"dc1": 3, "aggregate": 2}
"""The target has fewer: keys decide."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(BrokerThread(tmp_path / name)).bootstrap_servers
            for name in NAMES
        }


@pytest.fixture
def deployment(brokers: dict[str, str], tmp_path: Path) -> Deployment:
    ports = {name: int(servers.rsplit(":", 1)[1]) for name, servers in brokers.items()}
    made = Deployment(
        data_dir=tmp_path / "data",
        clusters=tuple(
            Cluster(name=name, brokers=(BrokerAddress(port=ports[name]),)) for name in NAMES
        ),
        mirrors=(Mirror(source="dc1", target="aggregate", rename="{source}.{topic}"),),
        audit=AuditSettings(
            window_ms=1000, settle_min_ms=500, report_interval_ms=100, silence_ms=3_000
        ),
    )
    (tmp_path / "tallymark.toml").write_text(dump_toml(made))
    return made


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with collected_store(deployment, NAMES) as opened:
        yield opened


def records(servers: str, topic: str, partitions: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    with SimpleConsumer(bootstrap_servers=servers) as reader:
        for partition in range(partitions):
            at, end = 0, 1
            while at < end:
                answer: Any = reader.fetch(topic, partition, at)
                found += [(partition, r) for batch in answer.batches for r in batch.records()]
                at, end = answer.next_offset, answer.high_watermark
    return found


def publish(servers: str) -> None:
    """Three seconds of records, so that some windows are whole."""
    with Producer(bootstrap_servers=servers, server="web-1") as producer:
        for number in range(150):
            producer.send("orders", b"%d" % number, key=b"k%d" % (number % 7))
            time.sleep(0.02)


def mirror(brokers: dict[str, str], without: set[bytes]) -> None:
    """Copy dc1 as the mirror does, but for some."""
    with Producer(bootstrap_servers=brokers["aggregate"], audit=False) as producer:
        for _, record in records(brokers["dc1"], "orders", PARTITIONS["dc1"]):
            if record.value not in without:
                producer.send(
                    COPY,
                    record.value,
                    key=record.key,
                    partition=partition_of(record.key or b"", PARTITIONS["aggregate"]),
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                )


def tallymark(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tallymark", "audit", *arguments]
    settings = ["--settings", str(folder / "tallymark.toml")]
    return subprocess.run([*command, *settings], capture_output=True, text=True, timeout=120)


def lost(store: Store) -> int:
    with store.read() as connection:
        rows = queries.windows(connection, EDGE, states=["LOSS"])
    return sum(row["missing"] for row in rows)


def test_what_the_mirror_left_out_is_copied(
    brokers: dict[str, str], store: Store, tmp_path: Path
) -> None:
    for name, topic in (("dc1", "orders"), ("aggregate", COPY)):
        with Admin(bootstrap_servers=brokers[name]) as admin:
            admin.create_topic(topic, PARTITIONS[name])
    publish(brokers["dc1"])
    without = {b"%d" % number for number in range(60, 70)}
    mirror(brokers, without)
    eventually(lambda: lost(store) == len(without))

    plan = str(tmp_path / "plan.json")
    shown = tallymark(tmp_path, "repair", "--plan", plan)
    assert "10 messages can be copied" in shown.stdout, shown.stderr
    told = json.loads(Path(plan).read_text())
    assert told["version"] == VERSION
    assert {one["to"]["topic"] for one in told["items"]} == {COPY}
    applied = tallymark(tmp_path, "repair", "--plan", plan, "--apply", "--verify")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "10 messages copied" in applied.stdout
    assert "all windows of the plan are good" in applied.stdout
    again = tallymark(tmp_path, "repair", "--plan", plan, "--apply", "--json")
    assert json.loads(again.stdout)["copied"] == 0

    upstream = records(brokers["dc1"], "orders", PARTITIONS["dc1"])
    downstream = records(brokers["aggregate"], COPY, PARTITIONS["aggregate"])
    assert sorted(r[1:] for _, r in downstream) == sorted(r[1:] for _, r in upstream)
    for partition, record in downstream:
        assert partition == partition_of(record.key or b"", PARTITIONS["aggregate"])
    assert lost(store) == 0
