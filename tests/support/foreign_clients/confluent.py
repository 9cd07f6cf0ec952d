"""confluent-kafka: librdkafka, from PyPI."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from foreign_clients.rows import LINGER_MS, SECONDS, Row


def write(servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any) -> None:
    failed: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": LINGER_MS, "compression.type": codec, **config}
    )
    for key, value, headers, timestamp in rows:
        producer.produce(
            topic,
            value,
            key,
            0,
            timestamp=timestamp,
            headers=[(name, data) for name, data in headers],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(SECONDS) == 0
    assert failed == []


def read(servers: str, topic: str, count: int) -> list[Row]:
    """The whole of partition 0, which must be ``count`` messages."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Row] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, 0.2):
            assert message.error() is None, message.error()
            assert message.offset() == len(found)
            headers: Any = message.headers() or []
            found.append((message.key(), message.value(), headers, message.timestamp()[1]))
    assert consumer.consume(1, 0.1) == []
    consumer.close()
    return found


class Member:
    """See :class:`foreign_clients.group.Member`."""

    def __init__(self, servers: str, topic: str, strategy: str = "range") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"readers-of-{topic}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": strategy,
                "heartbeat.interval.ms": 100,
            }
        )
        self._closed = False
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(100, 0.05)
        errors = [str(message.error()) for message in messages if message.error()]
        assert errors == [], errors
        return [message.value() or b"" for message in messages]

    def share(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        if not self._closed:
            self._consumer.close()
        self._closed = True
