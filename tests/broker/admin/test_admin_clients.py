"""The admin clients of other people, unmodified: topics from their making to their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from admin_wire import fresh
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError, KafkaException, NewPartitions, NewTopic
from foreign_clients.kafka_python import kafka

from tallymark.testing.broker_thread import BrokerThread

pytestmark = pytest.mark.process

rd: Any = confluent_kafka.admin
"""It names what it exports in a way that type checkers do not take for an export."""

aiokafka_admin = pytest.importorskip("aiokafka.admin", reason="aiokafka is not installed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), log_retention_ms=9000) as running:
        yield running


def produce(broker: BrokerThread, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(15) == 0


# --- librdkafka


@pytest.fixture(scope="module")
def confluent(broker: BrokerThread) -> Any:
    return rd.AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of a call."""
    (future,) = futures.values()
    return future.result(15)


def entries(confluent: Any, topic: str) -> dict[str, rd.ConfigEntry]:
    resource = rd.ConfigResource(rd.ConfigResource.Type.TOPIC, topic)
    found: dict[str, rd.ConfigEntry] = done(confluent.describe_configs([resource]))
    return found


def test_confluent_makes_changes_and_deletes_a_topic(broker: BrokerThread, confluent: Any) -> None:
    topic = fresh()
    done(confluent.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "5000"})]))
    assert len(confluent.list_topics(topic, 15).topics[topic].partitions) == 2
    with pytest.raises(KafkaException) as raised:
        done(confluent.create_topics([NewTopic(topic, 2, 1)]))
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    found = entries(confluent, topic)
    assert found["retention.ms"].value == "5000"
    assert found["retention.ms"].source == rd.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert found["segment.bytes"].is_default
    assert "log.retention.ms" in found["retention.ms"].synonyms

    resource = rd.ConfigResource(
        rd.ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            rd.ConfigEntry("segment.ms", "7000", incremental_operation=rd.AlterConfigOpType.SET),
            rd.ConfigEntry("retention.ms", None, incremental_operation=rd.AlterConfigOpType.DELETE),
            rd.ConfigEntry(
                "cleanup.policy", "compact", incremental_operation=rd.AlterConfigOpType.APPEND
            ),
        ],
    )
    done(confluent.incremental_alter_configs([resource]))
    found = entries(confluent, topic)
    assert found["segment.ms"].value == "7000"
    assert found["retention.ms"].value == "9000"
    assert found["cleanup.policy"].value == "delete,compact"

    done(confluent.create_partitions([NewPartitions(topic, 5)]))
    assert len(confluent.list_topics(topic, 15).topics[topic].partitions) == 5

    done(confluent.delete_topics([topic]))
    assert topic not in confluent.list_topics(timeout=15).topics


def test_confluent_does_not_wait_where_it_is_told_so(confluent: Any) -> None:
    topic = fresh()
    done(confluent.create_topics([NewTopic(topic, 1, 1)], operation_timeout=0))
    while topic not in confluent.list_topics(timeout=15).topics:
        time.sleep(0.02)


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_confluent_replaces_configs_in_the_older_way(confluent: Any) -> None:
    topic = fresh()
    done(confluent.create_topics([NewTopic(topic, 1, 1, config={"segment.ms": "7000"})]))
    resource = rd.ConfigResource(rd.ConfigResource.Type.TOPIC, topic, set_config={"flush.ms": "5"})
    done(confluent.alter_configs([resource]))
    found = entries(confluent, topic)
    assert (found["flush.ms"].value, found["segment.ms"].is_default) == ("5", True)
    wrong = rd.ConfigResource(rd.ConfigResource.Type.TOPIC, topic, set_config={"flush.sm": "5"})
    with pytest.raises(KafkaException, match=r"did you mean flush\.ms"):
        done(confluent.alter_configs([wrong]))


def test_confluent_reads_the_brokers_settings(confluent: Any) -> None:
    found = done(
        confluent.describe_configs([rd.ConfigResource(rd.ConfigResource.Type.BROKER, "0")])
    )
    retention = found["log.retention.ms"]
    assert (retention.value, retention.is_read_only) == ("9000", False), "it changes at run time"
    assert retention.source == rd.ConfigSource.STATIC_BROKER_CONFIG.value


def test_confluent_deletes_records_and_describes_the_cluster(
    broker: BrokerThread, confluent: Any
) -> None:
    topic = fresh()
    done(confluent.create_topics([NewTopic(topic, 1, 1)]))
    produce(broker, topic, 10)
    deleted = done(confluent.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    first = done(confluent.list_offsets({TopicPartition(topic, 0): rd.OffsetSpec.earliest()}))
    assert first.offset == 4
    cluster = confluent.describe_cluster(include_authorized_operations=True).result(15)
    assert [node.id for node in cluster.nodes] == [0]
    assert cluster.controller.id == 0
    assert cluster.authorized_operations


# --- kafka-python


def test_kafka_python_makes_changes_and_deletes_a_topic(broker: BrokerThread) -> None:
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType

    topic = fresh()
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_topics({topic: {"num_partitions": 2, "configs": {"retention.ms": "5000"}}})
        resource = Resource(ConfigResourceType.TOPIC, topic)
        found = admin.describe_configs([resource], config_filter="all")
        assert "5000" in str(found)
        admin.alter_configs([Resource(ConfigResourceType.TOPIC, topic, {"segment.ms": "7000"})])
        changed = str(admin.describe_configs([resource]))
        assert "7000" in changed
        assert "5000" in changed, "what is not named stays"
        admin.create_partitions({topic: 3})
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 3
        produce(broker, topic, 10)
        deleted = admin.delete_records({kafka.TopicPartition(topic, 0): 6})
        assert "6" in str(deleted)
        folders = str(admin.describe_log_dirs())
        assert topic in folders
        assert str(broker.settings.log_dirs[0]) in folders
        assert admin.describe_cluster()["controller_id"] == 0
        producers = admin.describe_producers([kafka.TopicPartition(topic, 0)])
        assert topic in str(producers)
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()


# --- aiokafka


def test_aiokafka_makes_changes_and_deletes_a_topic(broker: BrokerThread) -> None:
    topic = fresh()

    async def run() -> None:
        admin = aiokafka_admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            new = aiokafka_admin.NewTopic(topic, 2, 1, topic_configs={"retention.ms": "5000"})
            created = await admin.create_topics([new])
            assert [error[1] for error in created.topic_errors] == [0]
            kinds = aiokafka_admin.config_resource.ConfigResourceType
            resource = aiokafka_admin.config_resource.ConfigResource(kinds.TOPIC, topic)
            (described,) = await admin.describe_configs([resource], include_synonyms=True)
            assert "5000" in str(described)
            await admin.create_partitions({topic: aiokafka_admin.NewPartitions(4)})
            (found,) = await admin.describe_topics([topic])
            assert len(found["partitions"]) == 4
            cluster = await admin.describe_cluster()
            assert cluster["controller_id"] == 0
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())
