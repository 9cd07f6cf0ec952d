"""Topics, messages and consumers of one broker, whose groups the broker coordinates."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from typing import Any

from group_settings import consumer_settings

from tallymark import Producer
from tallymark.client.admin.admin import Admin
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.offsets import BrokerOffsets
from tallymark.client.reading.message import Message

SECONDS = 90.0
"""A process that a test starts takes long to begin on a loaded machine."""
_names = itertools.count()
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "fetch_max_wait_ms": 50}
BROKER: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 100,
}


class Rig:
    """Topics, messages and consumers of one broker; closes what it opened."""

    def __init__(self, servers: str, stack: ExitStack) -> None:
        self.servers = servers
        self.group = f"group{next(_names)}"
        self._stack = stack
        self.producer = stack.enter_context(Producer(bootstrap_servers=servers, audit=False))

    def topic(self, partitions: int = 1, messages: int = 0) -> str:
        name = f"topic{next(_names)}"
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topic(name, partitions)
        self.publish(name, 0, messages, partitions)
        return name

    def publish(self, topic: str, first: int, count: int, partitions: int = 1) -> None:
        for number in range(first, first + count):
            self.producer.send(
                topic, b"%d" % number, partition=number % partitions, timestamp=1_000 + number
            )
        self.producer.flush(10)

    def consumer(self, **settings: Any) -> ConsumerConnector:
        fixed = QUICK | {"bootstrap_servers": self.servers, "group": self.group}
        return self._stack.enter_context(ConsumerConnector(**(fixed | settings)))

    def stream(self, topic: str, **settings: Any) -> tuple[ConsumerConnector, Stream]:
        consumer = self.consumer(**settings)
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        return consumer, stream

    def stored(self, topic: str, partition: int = 0) -> int | None:
        """The group's offset, as one who is no member reads it."""
        settings = consumer_settings(group=self.group, bootstrap_servers=self.servers)
        link = CoordinatorConnection(Bootstrap.of(self.servers), settings)
        try:
            found = BrokerOffsets(link, settings).read([(topic, partition)], 0)
        finally:
            link.close()
        return found[topic, partition].offset if found else None


def take(stream: Stream, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} came"
        found += stream.poll(0.05, count - len(found))
    return found


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]
