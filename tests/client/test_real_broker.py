"""The clients against real brokers, ours and Apache Kafka, with a real log on a real disk."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from broker_kinds import AnyBroker, partition_folder

from tallymark.client import Admin, FetchSpec, Producer, SimpleConsumer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.fetched import Fetched
from tallymark.errors import KafkaError, LogTruncatedError


def producer(broker: AnyBroker, **settings: Any) -> Producer:
    quick: dict[str, Any] = {"audit": False, "stamp": True, "linger_ms": 1, "server": "srv"}
    return Producer(bootstrap_servers=broker.bootstrap_servers, **(quick | settings))


def read_all(broker: AnyBroker, topic: str, partition: int = 0) -> list[Any]:
    records: list[Any] = []
    with SimpleConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        end = consumer.end_offsets(topic)[partition]
        offset = 0
        while offset < end:
            fetched = consumer.fetch(topic, partition, offset)
            records += fetched.records()
            offset = fetched.next_offset
    return records


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_sent_is_read_with_its_stamps(
    any_broker: AnyBroker, topic: str, codec: str
) -> None:
    with producer(any_broker, compression_type=codec, batch_size=2000) as p:
        deliveries = [p.send(topic, b"%d" % number, key=b"k") for number in range(1000)]
        assert [d.result(30).offset for d in deliveries] == list(range(1000))
    records = read_all(any_broker, topic)
    assert [record.value for record in records] == [b"%d" % number for number in range(1000)]
    assert [stamp_of(record.headers) for record in records] == [
        Stamp(p.instance, 0, number, "srv") for number in range(1000)
    ]


def test_topics_offsets_and_times(any_broker: AnyBroker, topic: str) -> None:
    servers = any_broker.bootstrap_servers
    began = int(time.time() * 1000) - 10_000
    with Admin(bootstrap_servers=servers) as admin, producer(any_broker) as p:
        assert admin.create_topic(topic, 3)
        assert not admin.create_topic(topic, 3)
        for number in range(6):
            p.send(topic, b"x", partition=1, timestamp=began + 1000 * number).result(30)
        with SimpleConsumer(bootstrap_servers=servers) as consumer:
            assert consumer.topics()[topic].partitions == (0, 1, 2)
            assert consumer.end_offsets(topic) == {0: 0, 1: 6, 2: 0}
            assert consumer.get_offsets_before(topic, 1, -2) == [0]
            assert consumer.get_offsets_before(topic, 1, -1, 2) == [6, 0]
            assert consumer.offset_for_time(topic, 1, began + 2500) == 3
            assert consumer.offset_for_time(topic, 1, began + 9000) is None
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                consumer.fetch(topic, 1, 99)
            outcomes = consumer.multifetch([FetchSpec(topic, 1, 4), FetchSpec(topic, 0, 0)])
            found = [len(one.records()) for one in outcomes if isinstance(one, Fetched)]
            assert found == [2, 0]
        assert admin.cluster_id()
        assert admin.delete_topic(topic)
        assert topic not in admin.topics()


def test_a_long_poll_wakes_up(any_broker: AnyBroker, topic: str) -> None:
    with (
        producer(any_broker) as p,
        SimpleConsumer(bootstrap_servers=any_broker.bootstrap_servers) as consumer,
    ):
        p.send(topic, b"0").result(30)
        timer = threading.Timer(0.1, p.send, (topic, b"1"))
        timer.start()
        started = time.monotonic()
        (record,) = consumer.fetch(topic, 0, 1, max_wait_ms=10_000).records()
        assert record.value == b"1"
        assert time.monotonic() - started < 5
        timer.join()


@pytest.mark.soak_cases("apache_kafka")
def test_nothing_is_lost_or_doubled_when_the_broker_dies_under_load(
    any_broker: AnyBroker, topic: str
) -> None:
    """The broker is killed twice and comes back each time with what it had: every record that was
    acknowledged is there, none twice, all in order."""
    deliveries: list[Any] = []
    with producer(any_broker, batch_size=300, retry_backoff_ms=20) as p:
        p.send(topic, b"0").result(30)
        for round_ in range(2):
            for number in range(300):
                deliveries.append(p.send(topic, b"%d" % (round_ * 300 + number)))
                if number == 150:
                    any_broker.kill()
                    any_broker.start()
                time.sleep(0.0002)
        p.flush(30)
        for delivery in deliveries:
            delivery.result(0)
    records = read_all(any_broker, topic)
    assert [r.value for r in records] == [b"0"] + [b"%d" % number for number in range(600)]


@pytest.mark.soak_cases("apache_kafka")
def test_a_cut_tail_is_survived_by_the_producer_and_noticed_by_the_consumer(
    any_broker: AnyBroker, topic: str
) -> None:
    """A power failure takes the unflushed end of a segment with it: acknowledged records are gone.
    The producer goes on under a new identity, the reader is told where the logs diverge."""
    with (
        producer(any_broker, batch_size=1) as p,
        SimpleConsumer(bootstrap_servers=any_broker.bootstrap_servers) as consumer,
    ):
        for number in range(20):
            p.send(topic, b"%d" % number).result(30)
        seen = consumer.fetch(topic, 0, 0)
        assert seen.next_offset == 20
        any_broker.kill()
        (segment,) = partition_folder(any_broker, topic).glob("*.log")
        with segment.open("r+b") as file:
            file.truncate(segment.stat().st_size - 500)
        any_broker.start()
        landed = [p.send(topic, b"after %d" % number).result(20).offset for number in range(20)]
        assert landed[0] < 20
        assert landed == list(range(landed[0], landed[0] + 20))
        with pytest.raises(LogTruncatedError) as caught:
            consumer.fetch(topic, 0, seen.next_offset, last_epoch=seen.last_epoch)
        assert caught.value.diverging_offset == landed[0]
        again = consumer.fetch(topic, 0, landed[0], last_epoch=seen.last_epoch)
        assert again.records()[0].value == b"after 0"
