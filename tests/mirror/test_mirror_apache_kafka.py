"""Apache Kafka as source and as target: both directions at once between it and our broker."""

from __future__ import annotations

import itertools

import pytest
from mirror_rig import Rig, eventually, numbers, rig, zookeeper

from tallymark.apache_kafka import ApacheKafkaServer
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror import OffsetTranslator

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.apache_kafka, pytest.mark.timeout(180)]
_names = itertools.count()


def values(servers: str, topic: str) -> list[bytes | None]:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        if topic not in consumer.topics():
            return []
        found: list[bytes | None] = []
        end, at = consumer.end_offsets(topic)[0], 0
        while at < end:
            fetched = consumer.fetch(topic, 0, at)
            found += [record.value for record in fetched.records()]
            at = fetched.next_offset
        return found


def test_both_directions_with_apache_kafka(rig: Rig, apache_kafka: ApacheKafkaServer) -> None:
    """Whole batches of both, nothing goes round in circles, offsets translate."""
    topic = f"mirrored-{next(_names)}"
    rig.start("source")
    port = int(apache_kafka.bootstrap_servers.split(":")[1])
    rig.foreign = (
        Cluster(
            name="kafka",
            kind="apache-kafka",
            embedded=False,
            chroot=f"{rig.root}/kafka",
            brokers=(BrokerAddress(port=port),),
        ),
    )
    rig.mirrors = (
        MirrorSettings(source="source", target="kafka", topics=topic),
        MirrorSettings(source="kafka", target="source", topics=topic),
    )
    rig.topic("source", topic)
    rig.publish("source", topic, numbers(0, 300, "ours"), linger_ms=50, compression_type="lz4")
    there, back = rig.mirror("source", "kafka"), rig.mirror("kafka", "source")
    servers = apache_kafka.bootstrap_servers
    eventually(lambda: len(values(servers, topic)) == 300, 60)
    with Producer(
        bootstrap_servers=servers, interceptors=[], linger_ms=50, compression_type="zstd"
    ) as producer:
        for value in numbers(0, 300, "theirs"):
            producer.send(topic, value)
        producer.flush(30)
    eventually(lambda: len(rig.values(topic, "source")) == 600, 60)
    eventually(lambda: back.mirror.state.returned == there.mirror.state.returned == 300)
    there.stop()
    back.stop()
    both = numbers(0, 300, "ours") + numbers(0, 300, "theirs")
    assert rig.values(topic, "source") == both
    assert values(servers, topic) == both
    assert (there.mirror.state.returned, back.mirror.state.returned) == (300, 300)
    assert there.mirror.state.whole > 0
    assert back.mirror.state.whole > 0
    with OffsetTranslator(rig.deployment, "source", "kafka") as translator:
        assert translator.translate(topic, 0, 300).offset == 300
