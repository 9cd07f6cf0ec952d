"""kafka-python, unmodified: produce, consume, groups, admin."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_clients.group import PARTITIONS, Story
from foreign_clients.kafka_python import Member, has_codec, kafka, read, write
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, SECONDS, rows, stored_codecs
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.errors import InvalidPartitionsError, OffsetOutOfRangeError, TopicAlreadyExistsError

from tallymark.testing.zookeeper import free_port

pytestmark = pytest.mark.process


def test_a_connection_that_is_refused_leaves_no_socket() -> None:
    """It leaves them to the garbage collector, whose complaint failed a test of another file, once
    in many runs. What makes it close them must be in force."""
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(kafka.errors.KafkaError):
            kafka.KafkaAdminClient(
                bootstrap_servers=f"127.0.0.1:{free_port()}", bootstrap_timeout_ms=500
            )
        gc.collect()
    assert [str(one.message) for one in complaints if "socket" in str(one.message)] == []


@pytest.fixture(scope="module")
def admin(servers: str) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=servers)
    yield client
    client.close()


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_idempotent_or_not(
    servers: str, data_folder: Path, codec: str, idempotent: bool
) -> None:
    if not has_codec(codec):
        pytest.skip("kafka-python's package for this codec is not installed")
    topic = f"codec-{codec}-{idempotent}"
    write(servers, topic, rows("x"), codec, enable_idempotence=idempotent)
    assert read(servers, topic, COUNT) == rows("x")
    assert stored_codecs(data_folder, topic) == {codec}


def test_members_come_and_go(servers: str, admin: Any) -> None:
    admin.create_topics([NewTopic("group", PARTITIONS, 1)])
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    story = Story(
        join=lambda: Member(servers, "group"),
        send=lambda partition, value: producer.send("group", value, partition=partition),
        flush=lambda: producer.flush(SECONDS),
    )
    try:
        story.run()
    finally:
        producer.close()
    story.check()
    (found,) = admin.list_group_offsets({"readers-of-group": None}).values()
    assert [place.offset for place in found.values()] == [30] * PARTITIONS


def test_a_consumer_of_its_own_commits_and_looks_up(servers: str) -> None:
    write(servers, "commits", rows("x"))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, group_id="alone", enable_auto_commit=False
    )
    place = kafka.TopicPartition("commits", 0)
    consumer.assign([place])
    consumer.commit({place: kafka.OffsetAndMetadata(9, "note", -1)})
    assert consumer.committed(place) == 9
    assert consumer.end_offsets([place]) == {place: COUNT}
    found = consumer.offsets_for_times({place: FIRST_TIMESTAMP + 4500})
    assert found[place].offset == 5
    consumer.close()


def test_admin_of_topics(admin: Any) -> None:
    admin.create_topics([NewTopic("made", 3, 1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic("made", 3, 1)])
    admin.create_partitions({"made": NewPartitions(5)})
    with pytest.raises(InvalidPartitionsError, match="4 partitions are asked for, there are 5"):
        admin.create_partitions({"made": NewPartitions(4)})
    (told,) = admin.describe_topics(["made"])
    assert [place["partition_index"] for place in told["partitions"]] == [0, 1, 2, 3, 4]
    admin.delete_topics(["made"])
    assert "made" not in admin.list_topics()


def test_admin_of_configs(admin: Any) -> None:
    admin.create_topics([NewTopic("configured", 1, 1, topic_configs={"retention.ms": "1000"})])

    def changed() -> dict[str, str]:
        topic = ConfigResource(ConfigResourceType.TOPIC, "configured")
        told = admin.describe_configs([topic])["topic"]["configured"]
        return {name: entry["value"] for name, entry in told.items()}

    def alter(value: str) -> str:
        topic = ConfigResource(ConfigResourceType.TOPIC, "configured", {"retention.ms": value})
        return str(admin.alter_configs([topic])["topic"]["configured"])

    assert changed() == {"retention.ms": "1000"}
    assert alter("777000") == "OK"
    assert "must be an integer" in alter("soon")
    assert changed() == {"retention.ms": "777000"}
    topic = ConfigResource(ConfigResourceType.TOPIC, "configured", {"retention.ms": None})
    admin.reset_configs([topic])
    assert changed() == {}


def test_admin_of_records(servers: str, admin: Any) -> None:
    write(servers, "records", rows("x"))
    place = kafka.TopicPartition("records", 0)

    def offset(spec: Any) -> int:
        return int(admin.list_partition_offsets({place: spec})[place].offset)

    assert offset(OffsetSpec.LATEST) == COUNT
    assert offset(OffsetSpec.MAX_TIMESTAMP) == COUNT - 1
    (producer,) = admin.describe_producers([place])[place].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, COUNT - 1)
    assert admin.delete_records({place: 12})[place]["low_watermark"] == 12
    assert offset(OffsetSpec.EARLIEST) == 12
    with pytest.raises(OffsetOutOfRangeError):
        admin.delete_records({place: 999})


def test_admin_of_groups(servers: str, admin: Any) -> None:
    write(servers, "grouped", rows("x"))
    places = [kafka.TopicPartition("grouped", n) for n in range(2)]
    offsets = {place: kafka.OffsetAndMetadata(7, "note", -1) for place in places}
    admin.alter_group_offsets("by-hand", offsets)
    assert admin.list_group_offsets({"by-hand": None})["by-hand"] == offsets
    states = {group["group_id"]: group["group_state"] for group in admin.list_groups()}
    assert states["by-hand"] == "Empty"
    assert admin.describe_groups(["by-hand"])["by-hand"]["members"] == []
    admin.delete_group_offsets("by-hand", places[:1])
    assert list(admin.list_group_offsets({"by-hand": None})["by-hand"]) == places[1:]
    assert admin.delete_groups(["by-hand"]) == {"by-hand": "OK"}
    assert admin.delete_groups(["by-hand"]) == {"by-hand": "GroupIdNotFoundError"}


def test_admin_of_the_cluster(servers: str, admin: Any) -> None:
    write(servers, "stored", rows("x"))
    cluster = admin.describe_cluster()
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [cluster["controller_id"]]
    (told,) = admin.describe_log_dirs()
    (folder,) = told["log_dirs"]
    sizes = {
        (topic["name"], place["partition_index"]): place["partition_size"]
        for topic in folder["topics"]
        for place in topic["partitions"]
    }
    assert sizes["stored", 0] > sum(len(row[1] or b"") for row in rows("x"))
    assert sizes["stored", 1] == 0
    assert folder["total_bytes"] > folder["usable_bytes"] > 0


def test_transactions_commit_abort_and_move_offsets(servers: str) -> None:
    source = kafka.TopicPartition("python-in-transactions", 0)
    producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id="python")
    producer.init_transactions()
    for value, commits in ((b"0", True), (b"1", False), (b"2", True)):
        producer.begin_transaction()
        producer.send(source.topic, value, partition=0).get(SECONDS)
        position = kafka.OffsetAndMetadata(10 + int(value), "", -1)
        if value != b"2":
            producer.send_offsets_to_transaction({source: position}, "python-copier")
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id="python-copier",
        isolation_level="read_committed",
        enable_auto_commit=False,
        consumer_timeout_ms=SECONDS * 1000,
    )
    consumer.assign([source])
    assert consumer.committed(source) == 10, "the aborted one is not in force"
    consumer.seek_to_beginning(source)
    assert [next(consumer).value for _ in range(2)] == [b"0", b"2"]
    consumer.close()
