"""Apache Kafka as source and as target: both directions at once between it and our broker."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka import Producer as Confluent
from eventually import eventually
from mirror_rig import Rig, numbers, rig, zookeeper

from tallymark.client.producing.producer import Producer
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror import OffsetTranslator
from tallymark.processes.apache_kafka import ApacheKafkaServer

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.apache_kafka, pytest.mark.timeout(300)]
_names = itertools.count()


def foreign(rig: Rig, apache_kafka: ApacheKafkaServer) -> tuple[Cluster, ...]:
    port = int(apache_kafka.bootstrap_servers.split(":")[1])
    return (
        Cluster(
            name="kafka",
            kind="apache-kafka",
            embedded=False,
            chroot=f"{rig.root}/kafka",
            brokers=(BrokerAddress(port=port),),
        ),
    )


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
    rig.foreign = foreign(rig, apache_kafka)
    rig.mirrors = (
        MirrorSettings(source="source", target="kafka", topics=topic),
        MirrorSettings(source="kafka", target="source", topics=topic),
    )
    rig.topic("source", topic)
    rig.publish("source", topic, numbers(0, 300, "ours"), linger_ms=50, compression_type="lz4")
    there, back = rig.mirror("source", "kafka"), rig.mirror("kafka", "source")
    servers = apache_kafka.bootstrap_servers
    eventually(lambda: len(values(servers, topic)) == 300)
    with Producer(
        bootstrap_servers=servers, audit=False, linger_ms=50, compression_type="zstd"
    ) as producer:
        for value in numbers(0, 300, "theirs"):
            producer.send(topic, value)
        producer.flush(30)
    eventually(lambda: len(rig.values(topic, "source")) == 600)
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


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_what_transactions_aborted_is_not_copied(
    rig: Rig, apache_kafka: ApacheKafkaServer, isolation: Any
) -> None:
    """It was copied like everything else, and at the target nobody can tell it from what counts:
    the markers stay behind."""
    topic = f"mirrored-{next(_names)}"
    rig.start("target")
    rig.foreign = foreign(rig, apache_kafka)
    rig.mirrors = (
        MirrorSettings(source="kafka", target="target", topics=topic, isolation=isolation),
    )
    producer = Confluent(
        {"bootstrap.servers": apache_kafka.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(30.0)
    expected: list[bytes] = []
    ends: list[tuple[int, int, str]] = []
    at = 0
    for count, commits in ((40, False), (50, True), (3, False), (30, False), (2, True)):
        producer.begin_transaction()
        sent = numbers(at, at + count)
        for value in sent:
            producer.produce(topic, value)
        producer.flush(30.0)
        if commits:
            producer.commit_transaction(30.0)
        else:
            producer.abort_transaction(30.0)
        if commits or isolation == "read_uncommitted":
            expected += sent
        else:
            ends.append((at, at + count, "aborted"))
        ends.append((at + count, at + count + 1, "control"))
        at += count + 1
    running = rig.mirror("kafka", "target")
    eventually(lambda: bool(running.seen.gaps) and running.seen.gaps[-1][3] == at)
    eventually(lambda: rig.count(topic) >= len(expected))
    if isolation == "read_committed":  # what is open is waited for
        producer.begin_transaction()
        producer.produce(topic, b"open")
        producer.flush(30.0)
        producer.commit_transaction(30.0)
        eventually(lambda: rig.values(topic)[-1:] == [b"open"])
        expected.append(b"open")
    running.stop()
    assert rig.values(topic) == expected
    gaps = [gap[2:] for gap in running.seen.gaps]
    assert gaps[: len(ends)] == ends
    assert running.mirror.state.whole >= 50
    reasons = {reason for _, _, reason in ends}
    assert running.mirror.state.gaps.keys() == reasons
