"""A ZooKeeper, a broker registered there and a producer; consumers of its groups on demand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tallymark.client.admin.admin import Admin
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.connector.group_protocols import ZooKeeperGroupProtocol
from tallymark.client.consuming.stream import Stream
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.message import Message
from tallymark.coordination import ZooKeeper
from tallymark.errors import UserError
from tallymark.processes.java import find_java
from tallymark.processes.zookeeper_server import find_jars
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer

names = itertools.count()


@dataclass
class Cluster:
    """ZooKeeper, one broker, and a producer."""

    zookeeper: ZooKeeperServer
    broker: BrokerThread
    producer: Producer

    @property
    def connect(self) -> str:
        return f"{self.zookeeper.connect}/dc1"

    def topic(self, partitions: int = 2) -> str:
        """A new topic."""
        name = f"topic{next(names)}"
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            admin.create_topic(name, partitions)
        return name

    def publish(self, topic: str, first: int, count: int, partitions: int = 2) -> set[bytes]:
        values = [b"%d" % number for number in range(first, first + count)]
        for number, value in enumerate(values):
            self.producer.send(topic, value, partition=number % partitions)
        self.producer.flush(10)
        return set(values)

    def consumer(self, group: str, **settings: object) -> ConsumerConnector:
        fixed = {"session_timeout_ms": 2000, "fetch_max_wait_ms": 50}
        return ConsumerConnector(
            zookeeper_connect=self.connect,
            group=group,
            **(fixed | settings),  # type: ignore[arg-type] # settings of many types
        )


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Skips the test, with the reason, where ZooKeeper cannot run."""
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    with (
        ZooKeeperServer(folder) as server,
        BrokerThread(
            folder,
            enable_zookeeper=True,
            zookeeper_connect=f"{server.connect}/dc1",
            auto_create_topics_enable=False,
        ) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, audit=False, linger_ms=0) as producer,
    ):
        yield Cluster(server, broker, producer)


def session_of(consumer: ConsumerConnector) -> ZooKeeper:
    """The ZooKeeper session behind a connector, to do it harm."""
    protocol = consumer._protocol
    assert isinstance(protocol, ZooKeeperGroupProtocol)
    return protocol._zookeeper


def take(streams: list[Stream], wanted: set[bytes], seconds: float = 45.0) -> list[Message]:
    """Messages until all wanted values came."""
    found: list[Message] = []
    missing = set(wanted)
    deadline = time.monotonic() + seconds
    while missing:
        assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} did not come"
        for stream in streams:
            messages = stream.poll(0.02)
            found += messages
            missing -= {message.value for message in messages if message.value is not None}
    for stream in streams:  # who asks again is done with what it has
        found += stream.poll()
    return found


def values(messages: list[Message]) -> list[bytes]:
    return sorted(message.value or b"" for message in messages)
