"""Brokers of one node, each a cluster of its own below one ZooKeeper, and mirrors between them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mirror_fork import Command

from tallymark.client.admin.admin import Admin
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings, dump_toml
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.errors import UserError
from tallymark.mirror import Mirror, MirrorContext, MirrorObserver
from tallymark.processes.java import find_java
from tallymark.processes.zookeeper_server import find_jars
from tallymark.protocol.records.batch import Record
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

_names = itertools.count()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Rig:
    """Clusters of one broker each, below a chroot of their own, and mirrors into ``target``."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, opened: ExitStack) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self._opened = opened
        self.root = f"/rig{next(_names)}"
        self.foreign: tuple[Cluster, ...] = ()
        """Clusters that were started elsewhere."""
        self.brokers: dict[str, BrokerThread] = {}
        self.mirrors: tuple[MirrorSettings, ...] | None = None
        """Default: every cluster into ``target``."""

    def start(self, *names: str, **settings: Any) -> None:
        """A cluster of each name; ``settings`` are the broker's."""
        for name in names:
            broker = BrokerThread(
                self.folder / name,
                enable_zookeeper=True,
                zookeeper_connect=f"{self.zookeeper.connect}{self.root}/{name}",
                auto_create_topics_enable=False,
                **settings,
            )
            self.brokers[name] = self._opened.enter_context(broker)

    @property
    def deployment(self) -> Deployment:
        clusters = [
            Cluster(
                name=name,
                chroot=f"{self.root}/{name}",
                brokers=(BrokerAddress(port=broker.settings.port),),
            )
            for name, broker in self.brokers.items()
        ]
        sources = [name for name in self.brokers if name != "target"]
        return Deployment(
            data_dir=self.folder,
            zookeeper=ZooKeeperSettings(port=self.zookeeper.port, session_timeout_ms=2000),
            clusters=(*clusters, *self.foreign),
            mirrors=tuple(MirrorSettings(source=name, target="target") for name in sources)
            if self.mirrors is None
            else self.mirrors,
        )

    def settings(self) -> Path:
        """The deployment as a file, for commands."""
        path = self.folder / "tallymark.toml"
        path.write_text(dump_toml(self.deployment))
        return path

    def process(self, log: Path, *options: str) -> subprocess.Popen[bytes]:
        """``tallymark mirror``, its output behind what ``log`` holds; the caller ends it."""
        command = [sys.executable, "-m", "tallymark", "mirror", "--settings", str(self.settings())]
        with log.open("ab") as file:
            return subprocess.Popen([*command, *options], stdout=file, stderr=file)

    def fork(self, log: Path, *options: str) -> Command:
        """The same, sooner."""
        log.touch()
        return Command(["mirror", "--settings", str(self.settings()), *options], log)

    def topic(
        self, cluster: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        with Admin(bootstrap_servers=self.brokers[cluster].bootstrap_servers) as admin:
            admin.create_topic(name, partitions, configs)

    def delete(self, cluster: str, name: str) -> None:
        with Admin(bootstrap_servers=self.brokers[cluster].bootstrap_servers) as admin:
            admin.delete_topic(name)

    def producer(self, cluster: str, **settings: Any) -> Producer:
        servers = self.brokers[cluster].bootstrap_servers
        producer = Producer(bootstrap_servers=servers, audit=False, stamp=True, **settings)
        return self._opened.enter_context(producer)

    def publish(
        self, cluster: str, topic: str, values: Sequence[bytes], partition: int = 0, **settings: Any
    ) -> None:
        producer = self.producer(cluster, **settings)
        for value in values:
            producer.send(topic, value, partition=partition)
        producer.flush(60)

    def read(self, cluster: str, topic: str) -> dict[int, list[Record]]:
        """All records of the topic, by partition."""
        found: dict[int, list[Record]] = {}
        servers = self.brokers[cluster].bootstrap_servers
        with SimpleConsumer(bootstrap_servers=servers) as consumer:
            if topic not in consumer.topics():
                return found
            for partition, end in consumer.end_offsets(topic).items():
                records = found.setdefault(partition, [])
                at = 0
                while at < end:
                    fetched = consumer.fetch(topic, partition, at)
                    records += fetched.records()
                    at = fetched.next_offset
        return found

    def values(self, topic: str, cluster: str = "target") -> list[bytes]:
        """The values of all records of a topic, in the order of the partitions."""
        records = self.read(cluster, topic)
        return [record.value or b"" for part in sorted(records) for record in records[part]]

    def count(self, topic: str) -> int:
        """How many offsets the target has."""
        servers = self.brokers["target"].bootstrap_servers
        with SimpleConsumer(bootstrap_servers=servers) as consumer:
            if topic not in consumer.topics():
                return 0
            return sum(consumer.end_offsets(topic).values())

    def holds(self, topic: str, count: int) -> bool:
        return self.count(topic) >= count

    def mirror(
        self, source: str = "source", target: str = "target", **settings: Any
    ) -> RunningMirror:
        """A mirror, running."""
        return self._opened.enter_context(RunningMirror(self, source, target, **settings))


@pytest.fixture
def rig(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[Rig]:
    with ExitStack() as opened:
        yield Rig(tmp_path, zookeeper, opened)


@dataclass
class Seen:
    """An observer that remembers."""

    copied: list[tuple[str, int, int, int]] = field(default_factory=list)
    gaps: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    passed: dict[tuple[str, int], int] = field(default_factory=dict)
    ticks: int = 0
    closed: bool = False
    context: MirrorContext | None = None

    def attach(self, context: MirrorContext) -> None:
        self.context = context

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        self.copied.append((topic, partition, first_offset, last_offset))

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self.gaps.append((topic, partition, from_offset, to_offset, reason))

    def on_passed(self, topic: str, partition: int, offset: int, topic_id: str) -> None:
        self.passed[topic, partition] = offset

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self.ticks += 1

    def on_close(self, now_ms: int) -> None:
        self.closed = True


class RunningMirror:
    """A mirror in a thread of the test."""

    def __init__(
        self,
        rig: Rig,
        source: str = "source",
        target: str = "target",
        observers: Sequence[MirrorObserver] = (),
    ) -> None:
        self.seen = Seen()
        self.mirror = Mirror(rig.deployment, source, target, observers=[self.seen, *observers])
        self.error: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.mirror.step()
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join(60)
            self.mirror.close()
            assert self.seen.closed
            assert self.mirror.observer_errors == 0
        error, self.error = self.error, None
        if error is not None:
            raise error

    def __enter__(self) -> RunningMirror:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def numbers(start: int, end: int, name: str = "") -> list[bytes]:
    return [f"{name}{number}".encode() for number in range(start, end)]
