"""kafka-python, from PyPI."""

from __future__ import annotations

import time
import warnings
from typing import Any

from foreign_clients.rows import LINGER_MS, SECONDS, Row

with warnings.catch_warnings():
    # On Python 3.11 it reads its schemas through a function that is deprecated there.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka import codec as kafka_codec
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.net import inet, transport

__all__ = ["Member", "has_codec", "kafka", "read", "write"]


def _closed_where_it_fails() -> None:
    """Make kafka-python (3.0.12) close a socket whose connection or TLS handshake has failed. It
    forgets them; Python closes them when it collects garbage, and complains of that in whatever
    test of this process runs then."""
    connect, handshake = inet.KafkaNetSocket.sock_connect, transport.KafkaSSLTransport.handshake

    async def sock_connect(self: Any, net: Any, sock: Any, *rest: Any, **named: Any) -> Any:
        try:
            return await connect(self, net, sock, *rest, **named)
        except BaseException:
            sock.close()
            raise

    async def shake_hands(self: Any) -> None:
        try:
            await handshake(self)
        except BaseException:
            self._close()
            raise

    inet.KafkaNetSocket.sock_connect = sock_connect
    transport.KafkaSSLTransport.handshake = shake_hands


_closed_where_it_fails()


def has_codec(codec: str) -> bool:
    """Whether the packages that kafka-python compresses with are installed."""
    return codec == "none" or getattr(kafka_codec, f"has_{codec}")()


def write(servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        compression_type=None if codec == "none" else codec,
        linger_ms=LINGER_MS,
        **config,
    )
    sent = [
        producer.send(topic, value, key, headers, 0, timestamp)
        for key, value, headers, timestamp in rows
    ]
    for future in sent:
        future.get(SECONDS)
    producer.close()


def read(servers: str, topic: str, count: int) -> list[Row]:
    """The whole of partition 0, which must be ``count`` messages."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, enable_auto_commit=False, check_crcs=True
    )
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    found: list[Row] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(200).values():
            found += [(r.key, r.value, list(r.headers or []), r.timestamp) for r in records]
    assert consumer.poll(100) == {}
    consumer.close()
    return found


class Member:
    """See :class:`foreign_clients.group.Member`."""

    def __init__(self, servers: str, topic: str, strategy: str = "range,roundrobin") -> None:
        assignors = {
            each.name: each for each in (RangePartitionAssignor, RoundRobinPartitionAssignor)
        }
        self._consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=f"readers-of-{topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[assignors[name] for name in strategy.split(",")],
            heartbeat_interval_ms=100,
        )
        # One that joins before it knows the topic's partitions divides none, and leaves it at that.
        deadline = time.monotonic() + SECONDS
        while not self._consumer.partitions_for_topic(topic):
            assert time.monotonic() < deadline

    def poll(self) -> list[bytes]:
        found = self._consumer.poll(50)
        return [record.value for records in found.values() for record in records]

    def share(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()
