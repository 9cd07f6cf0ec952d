"""aiokafka, unmodified: produce, consume, groups, admin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from foreign_clients.aio import Member, read, write
from foreign_clients.group import PARTITIONS, Story
from foreign_clients.rows import COUNT, FIRST_TIMESTAMP, SECONDS, rows, stored_codecs

pytestmark = pytest.mark.process

T = TypeVar("T")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_idempotent_or_not(servers: str, data_folder: Path, codec: str) -> None:
    topic = f"codec-{codec}"
    write(servers, topic, rows("plain"), codec)
    write(servers, topic, rows("idempotent"), codec, enable_idempotence=True)
    assert read(servers, topic, 2 * COUNT) == rows("plain") + rows("idempotent")
    assert stored_codecs(data_folder, topic) == {codec}


def test_members_come_and_go(servers: str) -> None:
    with asyncio.Runner() as runner:
        admin = runner.run(started_admin(servers))
        runner.run(admin.create_topics([NewTopic("group", PARTITIONS, 1)]))
        producer = runner.run(started_producer(servers))
        sent: list[Awaitable[Any]] = []

        def send(partition: int, value: bytes) -> None:
            sent.append(runner.run(producer.send("group", value, partition=partition)))

        story = Story(
            join=lambda: Member(servers, "group", runner),
            send=send,
            flush=lambda: runner.run(producer.flush()),
        )
        story.run()
        story.check()
        found = runner.run(admin.list_consumer_group_offsets("readers-of-group"))
        assert [place.offset for place in found.values()] == [30] * PARTITIONS
        runner.run(producer.stop())
        runner.run(admin.close())


async def started_producer(servers: str) -> Any:
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    return producer


async def started_admin(servers: str) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    return admin


async def commit(servers: str, group: str, place: TopicPartition, offset: int) -> None:
    """What a consumer does that assigned itself the partition; then look at what there is."""
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
    async with consumer, asyncio.timeout(SECONDS):
        consumer.assign([place])
        await consumer.commit({place: OffsetAndMetadata(offset, "note")})
        assert await consumer.committed(place) == offset
        assert await consumer.end_offsets([place]) == {place: COUNT}
        found = await consumer.offsets_for_times({place: FIRST_TIMESTAMP + 4500})
        assert found[place].offset == 5


def test_a_consumer_of_its_own_commits_and_looks_up(servers: str) -> None:
    write(servers, "commits", rows("x"))
    asyncio.run(commit(servers, "alone", TopicPartition("commits", 0), 9))


def test_admin(servers: str) -> None:
    asyncio.run(administrate(servers))


async def administrate(servers: str) -> None:
    admin = await started_admin(servers)
    try:
        await admin_of_topics(admin)
        await admin_of_configs(admin)
        await admin_of_groups(admin, servers)
        cluster = await admin.describe_cluster()
        assert [broker["node_id"] for broker in cluster["brokers"]] == [cluster["controller_id"]]
    finally:
        await admin.close()


async def admin_of_topics(admin: Any) -> None:
    made = await admin.create_topics([NewTopic("made", 3, 1)])
    assert [code for _, code, *_ in made.topic_errors] == [0]
    again = await admin.create_topics([NewTopic("made", 3, 1)])
    assert [code for _, code, *_ in again.topic_errors] == [36]
    more = await admin.create_partitions({"made": NewPartitions(5)})
    assert [code for _, code, *_ in more.topic_errors] == [0]
    (told,) = await admin.describe_topics(["made"])
    assert len(told["partitions"]) == 5
    await admin.delete_topics(["made"])
    assert "made" not in await admin.list_topics()


async def admin_of_configs(admin: Any) -> None:
    await admin.create_topics([NewTopic("configured", 1, 1)])
    topic = ConfigResource(ConfigResourceType.TOPIC, "configured", {"retention.ms": "777000"})
    await admin.alter_configs([topic])
    (told,) = await admin.describe_configs([topic])
    ((*_, entries),) = told.resources
    assert {entry[0]: entry[1] for entry in entries}["retention.ms"] == "777000"


async def admin_of_groups(admin: Any, servers: str) -> None:
    place = TopicPartition("grouped", 0)
    await asyncio.to_thread(write, servers, place.topic, rows("x"))
    await commit(servers, "by-hand", place, 7)
    assert "by-hand" in {group[0] for group in await admin.list_consumer_groups()}
    (told,) = await admin.describe_consumer_groups(["by-hand"])
    ((code, group, state, *_),) = told.groups
    assert (code, group, state) == (0, "by-hand", "Empty")
    assert (await admin.list_consumer_group_offsets("by-hand"))[place].offset == 7


def test_admin_deletes_records(servers: str) -> None:
    write(servers, "records", rows("x"))

    async def run() -> None:
        admin = await started_admin(servers)
        place = TopicPartition("records", 0)
        try:
            found = await admin.delete_records({place: RecordsToDelete(12)})
        finally:
            await admin.close()
        assert found == {place: 12}

    asyncio.run(run())


def test_transactions_commit_abort_and_move_offsets(servers: str) -> None:
    asyncio.run(copied_in_transactions(servers))


async def copied_in_transactions(servers: str) -> None:
    source = TopicPartition("aio-in-transactions", 0)
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="aio")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id="aio-copier",
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with asyncio.timeout(2 * SECONDS), producer, consumer:
        for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction)):
            await producer.begin_transaction()
            await producer.send_and_wait(source.topic, b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({source: 10 + number}, "aio-copier")
            await ends()
        await producer.begin_transaction()
        await producer.send_and_wait(source.topic, b"2", partition=0)
        await producer.commit_transaction()
        consumer.assign([source])
        assert await consumer.committed(source) == 10, "the aborted one is not in force"
        await consumer.seek_to_beginning()
        assert [(await consumer.getone()).value for _ in range(2)] == [b"0", b"2"]
