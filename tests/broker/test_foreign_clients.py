"""Other people's clients, unmodified: what they write is what they read, byte for byte."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process

kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")

COUNT = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), num_partitions=2) as running:
        yield running


def rows(seed: str) -> list[tuple[bytes, bytes | None, list[tuple[str, bytes]], int]]:
    """(key, value, headers, timestamp): empty, null and binary ones among them."""
    found: list[tuple[bytes, bytes | None, list[tuple[str, bytes]], int]] = []
    for n in range(COUNT):
        value = None if n % 10 == 3 else bytes(range(256)) * (n % 4) + seed.encode()
        headers = [("h", b"%d" % n), ("h", b""), ("ä", bytes([n]))][: n % 4]
        found.append((b"k%d" % n, value, headers, 1_700_000_000_000 + n * 1000))
    return found


def produce_confluent(broker: BrokerThread, topic: str, seed: str, **config: Any) -> None:
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **config})
    for key, value, headers, timestamp in rows(seed):
        producer.produce(
            topic,
            value,
            key,
            0,
            timestamp=timestamp,
            headers=[(name, data) for name, data in headers],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(15) == 0
    assert failed == []


def read_confluent(broker: BrokerThread, topic: str, count: int) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, 1.0):
            assert message.error() is None, message.error()
            row = (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            assert message.offset() == len(found)
            found.append(row)
    consumer.close()
    return found


def read_kafka_python(broker: BrokerThread, topic: str, count: int) -> list[Any]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, enable_auto_commit=False, check_crcs=True
    )
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    found: list[Any] = []
    deadline = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(1000).values():
            found += [(r.key, r.value, r.headers or [], r.timestamp) for r in records]
    consumer.close()
    return found


def test_confluent_kafka_writes_every_codec_both_ways_and_reads_it_back(
    broker: BrokerThread,
) -> None:
    expected: list[Any] = []
    for idempotent in (False, True):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            seed = f"{codec}-{idempotent}"
            config = {"compression.type": codec, "enable.idempotence": idempotent}
            produce_confluent(broker, "confluent", seed, **config)
            expected += rows(seed)
    assert read_confluent(broker, "confluent", len(expected)) == expected


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_kafka_python_writes_idempotently_and_both_read_it(
    broker: BrokerThread, codec: str | None
) -> None:
    topic = f"kafka-python-{codec}"
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, compression_type=codec
    )
    sent = [
        producer.send(topic, value, key, headers, 0, timestamp)
        for key, value, headers, timestamp in rows("kp")
    ]
    assert [future.get(15).offset for future in sent] == list(range(COUNT))
    producer.close()
    assert read_kafka_python(broker, topic, COUNT) == rows("kp")
    assert read_confluent(broker, topic, COUNT) == rows("kp")


def test_kafka_python_reads_what_confluent_wrote(broker: BrokerThread) -> None:
    produce_confluent(broker, "crossed", "x", **{"compression.type": "gzip"})
    assert read_kafka_python(broker, "crossed", COUNT) == rows("x")


def test_confluents_consumer_commits_and_looks_up(broker: BrokerThread) -> None:
    produce_confluent(broker, "commits", "x")
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    place = TopicPartition("commits", 0)
    for _ in range(2):  # the second consumer finds what the first committed
        consumer = Consumer(config)
        consumer.assign([place])
        consumer.commit(offsets=[TopicPartition("commits", 0, 17)], asynchronous=False)
        consumer.close()
        consumer = Consumer(config)
        (found,) = consumer.committed([place], timeout=10)
        assert found.offset == 17
        assert consumer.get_watermark_offsets(place, timeout=10) == (0, COUNT)
        at = TopicPartition("commits", 0, 1_700_000_000_000 + 4500)
        (by_time,) = consumer.offsets_for_times([at], timeout=10)
        assert by_time.offset == 5
        consumer.close()


def test_kafka_pythons_consumer_commits_and_looks_up(broker: BrokerThread) -> None:
    produce_confluent(broker, "commits-kp", "x")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="kp", enable_auto_commit=False
    )
    place = kafka.TopicPartition("commits-kp", 0)
    consumer.assign([place])
    consumer.commit({place: kafka.OffsetAndMetadata(9, "note", -1)})
    assert consumer.committed(place) == 9
    assert consumer.end_offsets([place]) == {place: COUNT}
    consumer.close()


def test_confluents_admin(broker: BrokerThread) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topic = NewTopic("made", 3, 1, config={"retention.ms": "1000"})
    admin.create_topics([topic])["made"].result(10)
    assert len(admin.list_topics(timeout=10).topics["made"].partitions) == 3
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([topic])["made"].result(10)
    wrong = NewTopic("wrong", 1, 1, config={"retention.sm": "1"})
    with pytest.raises(KafkaException, match=r"did you mean retention\.ms"):
        admin.create_topics([wrong])["wrong"].result(10)
    admin.delete_topics(["made"])["made"].result(10)
    assert "made" not in admin.list_topics(timeout=10).topics


def test_transactions_fail_at_once_with_a_reason(broker: BrokerThread) -> None:
    """An error that clients retry would make init_transactions() hang until its timeout."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    began = time.monotonic()
    with pytest.raises(KafkaException, match="transactions are not served"):
        producer.init_transactions(20)
    assert time.monotonic() - began < 10
