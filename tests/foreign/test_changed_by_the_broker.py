"""What a broker makes of batches that it was sent: its own times, another codec, holes where older
messages of a key were. Ours and confluent-kafka read the same of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from broker_kinds import new_topic
from confluent_kafka import Consumer, TopicPartition
from foreign_clients import confluent, ours
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, SECONDS, Row, rows, stored_codecs

from tallymark.client import Admin, ConsumerConnector, Producer, SimpleConsumer
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = pytest.mark.process


def make(servers: str, topic: str, **configs: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        assert admin.create_topic(topic, 1, configs=dotted)


def test_the_time_of_the_log(place: tuple[str, Path]) -> None:
    servers, topic = place[0], new_topic("append-time")
    make(servers, topic, message_timestamp_type="LogAppendTime")
    some = rows("x", True)
    ours.write_columns(servers, topic, [(key, value, [], at) for key, value, _, at in some], "gzip")
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        told = producer.send(topic, b"last", timestamp=FIRST_TIMESTAMP).result(SECONDS).timestamp
    found = confluent.read(servers, topic, COUNT + 1)
    assert [row[:2] for row in found[:-1]] == [row[:2] for row in some]
    assert all(row[3] > FIRST_TIMESTAMP + COUNT * 1000 for row in found)
    assert told == found[-1][3]
    for name, read in ours.READERS.items():
        assert read(servers, topic, COUNT + 1) == found, name


@pytest.mark.apache_kafka
def test_another_codec(apache_kafka: ApacheKafkaServer) -> None:
    """Our broker never compresses again."""
    servers, topic = apache_kafka.bootstrap_servers, new_topic("recompressed")
    make(servers, topic, compression_type="zstd")
    some = rows("x", True)
    ours.write(servers, topic, some, "gzip")
    assert stored_codecs(apache_kafka.data, topic) == {"zstd"}
    assert confluent.read(servers, topic, COUNT) == some
    for name, read in ours.READERS.items():
        assert read(servers, topic, COUNT) == some, name


@pytest.mark.soak_cases("none")
@pytest.mark.apache_kafka
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_holes_of_compaction(apache_kafka: ApacheKafkaServer, codec: str) -> None:
    """Its cleaner writes batches with records missing in the middle and at both ends."""
    servers, topic = apache_kafka.bootstrap_servers, new_topic("compacted")
    quick = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
    make(servers, topic, cleanup_policy="compact", **quick)
    some: list[Row] = [
        (b"k%d" % (n % 7 if n % 3 else n), b"%d" % n if n % 5 else None, [], FIRST_TIMESTAMP + n)
        for n in range(200)
    ]
    ours.write_columns(servers, topic, some[:120], codec, stamp=True)
    ours.write_columns(servers, topic, some[120:], codec, batch_size=500)
    latest = {key: (n, key, value) for n, (key, value, _, _) in enumerate(some)}
    left = sorted(one for one in latest.values() if one[2] is not None)
    deadline = time.monotonic() + 4 * SECONDS
    while (theirs := read_by_confluent(servers, topic)) != left:
        assert time.monotonic() < deadline, f"{len(theirs)} are left, not {len(left)}"
        time.sleep(0.2)
        # A new segment: they end by the times of messages.
        ours.write(servers, topic, [(b"last", b"x", [], time.time_ns() // 1_000_000)])
    assert read_by_requests(servers, topic) == left
    assert read_as_a_group(servers, topic, len(left)) == left


def read_by_confluent(servers: str, topic: str) -> list[tuple[Any, Any, Any]]:
    """Offset, key and value of all there is, but for the key "last"."""
    config = {"bootstrap.servers": servers, "group.id": "readers", "enable.partition.eof": True}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(SECONDS)) is not None and message.error() is None:
        found.append((message.offset(), message.key(), message.value()))
    assert message is not None
    consumer.close()
    return [one for one in found if one[1] != b"last"]


def read_by_requests(servers: str, topic: str) -> list[tuple[Any, Any, Any]]:
    found: list[tuple[Any, Any, Any]] = []
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        at, end = 0, consumer.end_offsets(topic)[0]
        while at < end:
            fetched = consumer.fetch(topic, 0, at)
            columns = zip(fetched.offsets, fetched.keys(), fetched.values(), strict=True)
            some = [one for one in columns if one[1] != b"last"]
            assert some == [(m.offset, m.key, m.value) for m in fetched if m.key != b"last"]
            found += some
            at = fetched.next_offset
    return found


def read_as_a_group(servers: str, topic: str, count: int) -> list[tuple[Any, Any, Any]]:
    with ConsumerConnector(
        bootstrap_servers=servers,
        group=f"readers-of-{topic}",
        consumer_timeout_ms=SECONDS * 1000,
    ) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        messages = (message for message in stream if message.key != b"last")
        return [(m.offset, m.key, m.value) for _, m in zip(range(count), messages, strict=False)]
