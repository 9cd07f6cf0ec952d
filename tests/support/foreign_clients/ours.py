"""Our own clients, with the face of the others; in groups the brokers coordinate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from foreign_clients.rows import LINGER_MS, SECONDS, Row
from tallymark.client import Fetched, Producer, SimpleConsumer
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.reading.message_batch import MessageBatch

_numbers = itertools.count()


def write(servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any) -> bytes:
    """One call a message, into partition 0; the producer's instance, as its stamps have it."""
    with _producer(servers, codec, config) as producer:
        sent = [
            producer.send(
                topic, value, key=key, partition=0, timestamp=timestamp, headers=tuple(headers)
            )
            for key, value, headers, timestamp in rows
        ]
        first = sent[0].result(SECONDS).offset
        for number, delivery in enumerate(sent):
            assert delivery.result(SECONDS).offset == first + number
        return producer.instance


def write_columns(
    servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any
) -> bytes:
    """The same by one call for all of them, whose headers are the same."""
    keys, values, headers, timestamps = zip(*rows, strict=True)
    with _producer(servers, codec, config) as producer:
        metadata = producer.send_many(
            topic,
            list(values),
            keys=list(keys),
            partition=0,
            timestamps=list(timestamps),
            headers=headers[0],
        ).result(SECONDS)
        assert sum(found.count for found in metadata.ranges) == len(rows)
        return producer.instance


def _producer(servers: str, codec: str, config: dict[str, Any]) -> Producer:
    settings: dict[str, Any] = {"audit": False, "compression_type": codec}
    settings |= {"linger_ms": LINGER_MS, **config}
    return Producer(bootstrap_servers=servers, **settings)


# -- reading: the whole of partition 0, which must be ``count`` messages ----------------------


def read(servers: str, topic: str, count: int) -> list[Row]:
    """By requests of its own, record by record."""
    found: list[Row] = []
    for fetched in _fetches(servers, topic):
        for record in fetched.records():
            assert record.offset == len(found)
            found.append((record.key, record.value, list(record.headers), record.timestamp))
    assert len(found) == count
    return found


def read_columns(servers: str, topic: str, count: int) -> list[Row]:
    """By requests of its own, as columns; messages one by one must be the same."""
    found: list[Row] = []
    for fetched in _fetches(servers, topic):
        some = _rows_of(fetched, len(found))
        assert _rows(fetched, len(found)) == some
        found += some
    assert len(found) == count
    return found


def read_stream(servers: str, topic: str, count: int) -> list[Row]:
    """As a member of a group, message by message."""
    with _stream(servers, topic) as stream:
        found = _rows(itertools.islice(stream, count), 0)
        assert stream.poll(0.1) == []
    return found


def read_batches(servers: str, topic: str, count: int) -> list[Row]:
    """As a member of a group, batch by batch."""
    found: list[Row] = []
    with _stream(servers, topic) as stream:
        for batch in stream.batches():
            found += _rows_of(batch, len(found))
            if len(found) >= count:
                break
        assert stream.poll(0.1) == []
    assert len(found) == count
    return found


READERS: Final[dict[str, Callable[[str, str, int], list[Row]]]] = {
    "records": read,
    "columns": read_columns,
    "stream": read_stream,
    "batches": read_batches,
}
"""All ways of ours."""


def _fetches(servers: str, topic: str) -> Iterator[Fetched]:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        offset, end = 0, consumer.end_offsets(topic)[0]
        while offset < end:
            fetched = consumer.fetch(topic, 0, offset)
            yield fetched
            offset = fetched.next_offset


@contextmanager
def _stream(servers: str, topic: str) -> Iterator[Stream]:
    with ConsumerConnector(
        bootstrap_servers=servers,
        group=f"read-{topic}-{next(_numbers)}",
        enable_auto_commit=False,
        consumer_timeout_ms=SECONDS * 1000,
    ) as connector:
        yield connector.create_message_streams({topic: 1})[topic][0]


def _rows(messages: Iterable[Any], first: int) -> list[Row]:
    found: list[Row] = []
    for message in messages:
        if message.partition == 0:
            assert message.offset == first + len(found)
            found.append((message.key, message.value, list(message.headers), message.timestamp))
    return found


def _rows_of(batch: Fetched | MessageBatch, first: int) -> list[Row]:
    headers: Sequence[Any] = [list(some) for some in batch.headers()]
    rows = list(zip(batch.keys(), batch.values(), headers, batch.timestamps, strict=True))
    assert list(batch.offsets) == list(range(first, first + len(rows)))
    return rows


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
