"""confluent-kafka (librdkafka), unmodified: produce, consume, groups, admin."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import admin as confluent_admin
from confluent_kafka.cimpl import NewPartitions, NewTopic
from foreign_clients.confluent import Member, read, write
from foreign_clients.group import PARTITIONS, Story
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, SECONDS, rows, stored_codecs

pytestmark = pytest.mark.process

api: Any = confluent_admin
"""Its types do not export half of what it has."""


@pytest.fixture(scope="module")
def admin(servers: str) -> confluent_admin.AdminClient:
    return confluent_admin.AdminClient({"bootstrap.servers": servers})


def done(futures: dict[Any, Any]) -> Any:
    """The one result of an admin call."""
    (future,) = futures.values()
    return future.result(SECONDS)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_idempotent_or_not(servers: str, data_folder: Path, codec: str) -> None:
    topic = f"codec-{codec}"
    write(servers, topic, rows("plain"), codec)
    write(servers, topic, rows("idempotent"), codec, **{"enable.idempotence": True})
    assert read(servers, topic, 2 * COUNT) == rows("plain") + rows("idempotent")
    assert stored_codecs(data_folder, topic) == {codec}


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements(servers: str, acks: int) -> None:
    write(servers, f"acks-{acks}", rows("x"), acks=acks)
    assert read(servers, f"acks-{acks}", COUNT) == rows("x")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go(
    servers: str, admin: confluent_admin.AdminClient, strategy: str
) -> None:
    topic = f"group-{strategy}"
    done(admin.create_topics([NewTopic(topic, PARTITIONS, 1)]))
    producer = Producer({"bootstrap.servers": servers})
    story = Story(
        join=lambda: Member(servers, topic, strategy),
        send=lambda partition, value: producer.produce(topic, value, partition=partition),
        flush=lambda: producer.flush(SECONDS),
    )
    story.run()
    story.check()
    (found,) = done_offsets(admin, f"readers-of-{topic}").values()
    assert found == [30] * PARTITIONS


def done_offsets(admin: confluent_admin.AdminClient, group: str) -> dict[str, list[int]]:
    """Topic to committed offsets, by partition."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found: dict[str, list[int]] = {}
    told = done(admin.list_consumer_group_offsets(asked)).topic_partitions
    for place in sorted(told, key=lambda place: (place.topic, place.partition)):
        found.setdefault(place.topic, []).append(place.offset)
    return found


def test_a_consumer_of_its_own_commits_and_looks_up(servers: str) -> None:
    write(servers, "commits", rows("x"))
    config = {"bootstrap.servers": servers, "group.id": "alone"}
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
        at = TopicPartition("commits", 0, FIRST_TIMESTAMP + 4500)
        (by_time,) = consumer.offsets_for_times([at], timeout=10)
        assert by_time.offset == 5
        consumer.close()


def test_admin_of_topics(admin: confluent_admin.AdminClient) -> None:
    topic = NewTopic("made", 3, 1, config={"retention.ms": "1000"})
    done(admin.create_topics([topic]))
    assert len(admin.list_topics(timeout=10).topics["made"].partitions) == 3
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(admin.create_topics([topic]))
    wrong = NewTopic("wrong", 1, 1, config={"retention.sm": "1"})
    with pytest.raises(KafkaException, match=r"did you mean retention\.ms"):
        done(admin.create_topics([wrong]))
    done(admin.create_partitions([NewPartitions("made", 5)]))
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        done(admin.create_partitions([NewPartitions("made", 4)]))
    assert len(admin.list_topics(timeout=10).topics["made"].partitions) == 5
    done(admin.delete_topics(["made"]))
    assert "made" not in admin.list_topics(timeout=10).topics


def test_admin_of_configs(admin: confluent_admin.AdminClient) -> None:
    done(admin.create_topics([NewTopic("configured", 1, 1)]))

    def value(name: str) -> Any:
        return done(
            admin.describe_configs([api.ConfigResource(api.ResourceType.TOPIC, "configured")])
        )[name]

    def change(name: str, new: str | None, how: Any) -> None:
        entry = api.ConfigEntry(name, new, incremental_operation=how)
        resource = api.ConfigResource(
            api.ResourceType.TOPIC, "configured", incremental_configs=[entry]
        )
        done(admin.incremental_alter_configs([resource]))

    assert value("retention.ms").is_default
    change("retention.ms", "777000", api.AlterConfigOpType.SET)
    change("cleanup.policy", "compact", api.AlterConfigOpType.APPEND)
    assert value("retention.ms").value == "777000"
    assert value("cleanup.policy").value == "delete,compact"
    with pytest.raises(KafkaException, match="INVALID_CONFIG"):
        change("retention.ms", "soon", api.AlterConfigOpType.SET)
    change("retention.ms", None, api.AlterConfigOpType.DELETE)
    assert value("retention.ms").is_default
    # The older form: what is not named falls back to its default.
    whole = api.ConfigResource(api.ResourceType.TOPIC, "configured", {"segment.bytes": "2000000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        done(admin.alter_configs([whole]))
    assert value("segment.bytes").value == "2000000"
    assert value("cleanup.policy").value == "delete"


def test_admin_of_records(servers: str, admin: confluent_admin.AdminClient) -> None:
    write(servers, "records", rows("x"))
    place = TopicPartition("records", 0)

    def offset(spec: Any) -> int:
        return int(done(admin.list_offsets({place: spec})).offset)

    assert offset(api.OffsetSpec.earliest()) == 0
    assert offset(api.OffsetSpec.latest()) == COUNT
    assert offset(api.OffsetSpec.max_timestamp()) == COUNT - 1
    assert offset(api.OffsetSpec.for_timestamp(FIRST_TIMESTAMP + 6500)) == 7
    deleted = done(admin.delete_records([TopicPartition("records", 0, 12)]))
    assert deleted.low_watermark == 12
    assert offset(api.OffsetSpec.earliest()) == 12
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        done(admin.delete_records([TopicPartition("records", 0, 999)]))


def test_admin_of_groups(servers: str, admin: confluent_admin.AdminClient) -> None:
    write(servers, "grouped", rows("x"))
    offsets = [TopicPartition("grouped", 0, 7)]
    done(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("by-hand", offsets)]))
    assert done_offsets(admin, "by-hand") == {"grouped": [7]}
    listed = admin.list_consumer_groups().result(SECONDS)
    assert listed.errors == []
    states = {group.group_id: group.state for group in listed.valid}
    assert states["by-hand"] == ConsumerGroupState.EMPTY
    member = Member(servers, "grouped", "range")
    deadline = time.monotonic() + SECONDS
    while member.share() < 2 and time.monotonic() < deadline:
        member.poll()
    found = done(admin.describe_consumer_groups(["readers-of-grouped"]))
    assert found.state == ConsumerGroupState.STABLE
    assert found.partition_assignor == "range"
    (told,) = found.members
    assert [place.partition for place in told.assignment.topic_partitions] == [0, 1]
    assert told.client_id == "rdkafka"
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        done(admin.delete_consumer_groups(["readers-of-grouped"]))
    member.close()
    done(admin.delete_consumer_groups(["by-hand"]))
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        done(admin.delete_consumer_groups(["by-hand"]))


def test_admin_of_the_cluster(admin: confluent_admin.AdminClient) -> None:
    cluster = admin.describe_cluster().result(SECONDS)
    assert cluster.cluster_id
    assert [node.id for node in cluster.nodes] == [cluster.controller.id]
    (node,) = cluster.nodes
    broker = api.ConfigResource(api.ResourceType.BROKER, str(node.id))
    assert "log.dirs" in done(admin.describe_configs([broker]))


def test_transactions_commit_abort_and_move_offsets(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "confluent"})
    producer.init_transactions(SECONDS)
    for value, commit in ((b"first", True), (b"aborted", False), (b"second", True)):
        producer.begin_transaction()
        producer.produce("in-transactions", value, partition=0)
        producer.flush(SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    settings = {"bootstrap.servers": servers, "group.id": "copier", "enable.auto.commit": False}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition("in-transactions", 0, 0)])
    found: list[bytes | None] = []
    while len(found) < 2:
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    assert found == [b"first", b"second"]
    for commit, expected in ((False, -1001), (True, 5)):
        producer.begin_transaction()
        producer.produce("copied", b"copy", partition=0)
        positions = consumer.position([TopicPartition("in-transactions", 0)])
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(positions, metadata, SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
        asked = [TopicPartition("in-transactions", 0)]
        assert consumer.committed(asked, SECONDS)[0].offset == expected
    consumer.close()


def test_the_next_producer_of_a_transactional_id_fences_the_one_before(servers: str) -> None:
    settings = {"bootstrap.servers": servers, "transactional.id": "taken"}
    first, second = Producer(settings), Producer(settings)
    first.init_transactions(SECONDS)
    first.begin_transaction()
    first.produce("taken", b"zombie", partition=0)
    first.flush(SECONDS)
    second.init_transactions(SECONDS)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(SECONDS)
    assert fenced.value.args[0].fatal()
