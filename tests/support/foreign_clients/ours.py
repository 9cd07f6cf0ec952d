"""Our own clients, with the face of the others; in groups the brokers coordinate."""

from __future__ import annotations

from typing import Any

from foreign_clients.rows import LINGER_MS, SECONDS, Row
from tallymark.client import Producer, SimpleConsumer
from tallymark.client.connector.connector import ConsumerConnector


def write(servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any) -> None:
    settings: dict[str, Any] = {"stamp": False, "interceptors": [], "compression_type": codec}
    settings |= {"linger_ms": LINGER_MS, **config}
    with Producer(bootstrap_servers=servers, **settings) as producer:
        sent = [
            producer.send(
                topic, value, key=key, partition=0, timestamp=timestamp, headers=tuple(headers)
            )
            for key, value, headers, timestamp in rows
        ]
        for number, delivery in enumerate(sent):
            assert delivery.result(SECONDS).offset == number


def read(servers: str, topic: str, count: int) -> list[Row]:
    """The whole of partition 0, which must be ``count`` messages."""
    found: list[Row] = []
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        offset, end = 0, consumer.end_offsets(topic)[0]
        while offset < end:
            fetched = consumer.fetch(topic, 0, offset)
            for record in fetched.records():
                assert record.offset == len(found)
                headers = [(name, data or b"") for name, data in record.headers]
                found.append((record.key, record.value, headers, record.timestamp))
            offset = fetched.next_offset
    assert len(found) == count
    return found


class Member:
    """See :class:`foreign_clients.group.Member`."""

    def __init__(self, servers: str, topic: str, strategy: str = "range") -> None:
        self._connector = ConsumerConnector(
            bootstrap_servers=servers,
            group=f"readers-of-{topic}",
            enable_auto_commit=False,
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=100,
            start_timeout_ms=0,  # others may have to poll before it gets its part
        )
        (self._stream,) = self._connector.create_message_streams({topic: 1})[topic]

    def poll(self) -> list[bytes]:
        return [message.value or b"" for message in self._stream.poll(0.05)]

    def share(self) -> int:
        return sum(map(len, self._connector.assignment.values()))

    def commit(self) -> None:
        self._connector.commit_offsets()

    def close(self) -> None:
        self._connector.shutdown()
