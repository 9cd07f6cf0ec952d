"""Metadata, CreateTopics, DeleteTopics over a real socket, in every version served."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from admin_wire import create, fresh
from eventually import eventually

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.broker.metadata.local_cluster import LocalCluster
from tallymark.broker.settings.config_types import ConfigSource
from tallymark.broker.settings.listeners import Endpoint
from tallymark.broker.settings.topic_configs import RULES
from tallymark.broker.timed_changes import TimedChanges
from tallymark.client.admin.admin import Admin
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), num_partitions=2) as running:
        yield running


def ask(wire: WireClient, *names: str, version: int = 12, create: bool = True) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)


@pytest.mark.parametrize("version", range(14))
def test_metadata_creates_and_describes_in_every_version(wire: WireClient, version: int) -> None:
    name = fresh()
    answer = ask(wire, name, version=version)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, name)
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    assert all(p.leader_id == 0 and p.error_code == 0 for p in topic.partitions)
    assert all(tuple(p.isr_nodes) == (0,) for p in topic.partitions)
    (broker,) = answer.brokers
    assert broker.host == "127.0.0.1", "localhost may mean ::1 to a client"
    if version >= 1:
        assert answer.controller_id == 0
    if version >= 2:
        assert answer.cluster_id
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 0
    if version >= 10:
        assert topic.topic_id != uuid.UUID(int=0)


def test_all_topics_null_or_in_v0_the_empty_list(wire: WireClient) -> None:
    name = fresh()
    ask(wire, name)
    everything = wire.ask(MetadataRequest(topics=None), 12)
    assert name in [topic.name for topic in everything.topics]
    assert name in [topic.name for topic in wire.ask(MetadataRequest(topics=[]), 0).topics]
    assert list(wire.ask(MetadataRequest(topics=[]), 1).topics) == []


def test_the_asker_may_forbid_creation(wire: WireClient) -> None:
    name = fresh()
    for _ in range(2):
        (topic,) = ask(wire, name, create=False).topics
        assert topic.error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_the_broker_may_forbid_creation(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, auto_create_topics_enable=False) as strict,
        WireClient(strict.bootstrap_servers) as wire,
    ):
        (topic,) = ask(wire, "t").topics
        assert topic.error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_impossible_names_are_told(wire: WireClient) -> None:
    codes = [topic.error_code for topic in ask(wire, "a/b", "", "x" * 300).topics]
    assert codes == [CODES["INVALID_TOPIC_EXCEPTION"]] * 3


def test_topics_by_id(wire: WireClient) -> None:
    name = fresh()
    identity = ask(wire, name).topics[0].topic_id
    by_id = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=identity, name=None),
            MetadataRequestTopic(topic_id=uuid.uuid4(), name=None),
        ]
    )
    known, unknown = wire.ask(by_id, 12).topics
    assert (known.error_code, known.name) == (0, name)
    assert (unknown.error_code, unknown.name) == (CODES["UNKNOWN_TOPIC_ID"], None)


@pytest.mark.parametrize("version", range(2, 8))
def test_create_and_delete_in_every_version(wire: WireClient, version: int) -> None:
    name = fresh()
    created = create(wire, name, 3, version=version, configs={"retention.ms": "5000"})
    assert created.error_code == 0
    described = ask(wire, name, create=False).topics[0]
    assert len(described.partitions) == 3
    if version >= 7:
        assert created.topic_id == described.topic_id
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        told = {c.name: (c.value, c.config_source) for c in created.configs or ()}
        assert list(told) == list(RULES), "every config, set or not"
        assert told["retention.ms"] == ("5000", ConfigSource.TOPIC)
        assert told["segment.bytes"] == (str(1024**3), ConfigSource.DEFAULT)
        assert created.topic_config_error_code == 0
    assert create(wire, name, 3, version=version).error_code == CODES["TOPIC_ALREADY_EXISTS"]
    by_name = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
    assert wire.ask(by_name, min(version, 5)).responses[0].error_code == 0
    gone = ask(wire, name, create=False).topics[0]
    assert gone.error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_created_again_topic_has_another_id_and_no_records(wire: WireClient) -> None:
    name = fresh()
    first = create(wire, name).topic_id
    by_id = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(topic_id=first)], timeout_ms=5000)
    deleted = wire.ask(by_id, 6).responses[0]
    assert (deleted.error_code, deleted.name) == (0, name)
    assert create(wire, name).topic_id != first
    again = wire.ask(by_id, 6).responses[0]
    assert again.error_code == CODES["UNKNOWN_TOPIC_ID"]


def test_defaults_and_validation_only(wire: WireClient) -> None:
    name = fresh()
    assert create(wire, name, -1, -1, validate_only=True).num_partitions == 2
    assert ask(wire, name, create=False).topics[0].error_code != 0
    assert create(wire, name, -1, -1).num_partitions == 2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"partitions": 0}, "INVALID_PARTITIONS"),
        ({"partitions": -7}, "INVALID_PARTITIONS"),
        ({"partitions": 2**31 - 1}, "INVALID_PARTITIONS"),
        ({"partitions": 10_001}, "INVALID_PARTITIONS"),
        ({"replicas": 3}, "INVALID_REPLICATION_FACTOR"),
        ({"replicas": 0}, "INVALID_REPLICATION_FACTOR"),
        ({"replicas": -2}, "INVALID_REPLICATION_FACTOR"),
        ({"configs": {"compression.type": "none"}}, "INVALID_CONFIG"),
        ({"configs": {"min.insync.replicas": "0"}}, "INVALID_CONFIG"),
        ({"configs": {"x" * 30_000: "y"}}, "INVALID_CONFIG"),
        ({"configs": {"retention.ms": "x"}}, "INVALID_CONFIG"),
        ({"configs": {"retention.ms": None}}, "INVALID_CONFIG"),
        ({"configs": {"nonsense": "1"}}, "INVALID_CONFIG"),
    ],
)
def test_impossible_topics_are_refused(
    wire: WireClient, change: dict[str, object], name: str
) -> None:
    for validate_only in (True, False):
        topic = fresh()
        answer = create(wire, topic, validate_only=validate_only, **change)  # type: ignore[arg-type] # a table of wrong values
        assert answer.error_code == CODES[name]
        assert answer.error_message
        assert len(answer.error_message) < 500
        assert ask(wire, topic, create=False).topics[0].error_code != 0


def test_placement_by_hand_names_every_partition(wire: WireClient) -> None:
    def placed(*assignments: CreateTopicsRequestAssignment) -> int:
        topic = CreateTopicsRequestTopic(
            name=fresh(), num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        return wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code

    there = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[0])
    assert placed(there) == 0
    second = CreateTopicsRequestAssignment(partition_index=1, broker_ids=[5])
    assert placed(there, second) == CODES["INVALID_REPLICA_ASSIGNMENT"]
    hole = CreateTopicsRequestAssignment(partition_index=2, broker_ids=[0])
    assert placed(there, hole) == CODES["INVALID_REPLICA_ASSIGNMENT"]
    assert placed(there, there) == CODES["INVALID_REPLICA_ASSIGNMENT"]
    negative = CreateTopicsRequestAssignment(partition_index=-1, broker_ids=[0])
    assert placed(negative) == CODES["INVALID_REPLICA_ASSIGNMENT"]
    many = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[0, 1])
    assert placed(many) == CODES["INVALID_REPLICATION_FACTOR"]


def test_placement_by_hand_and_numbers_contradict_each_other(wire: WireClient) -> None:
    there = CreateTopicsRequestAssignment(partition_index=0, broker_ids=[0])
    for numbers in ({"num_partitions": 1}, {"replication_factor": 1}):
        asked = {"num_partitions": -1, "replication_factor": -1} | numbers
        topic = CreateTopicsRequestTopic(name=fresh(), assignments=[there], **asked)  # type: ignore[arg-type] # a table of numbers
        answer = wire.ask(CreateTopicsRequest(topics=[topic], validate_only=True), 7)
        assert answer.topics[0].error_code == CODES["INVALID_REQUEST"]


def test_a_name_twice_in_one_request_creates_nothing(wire: WireClient) -> None:
    name = fresh()
    topic = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic, topic]), 7)
    assert [t.error_code for t in answer.topics] == [CODES["INVALID_REQUEST"]] * 2
    assert ask(wire, name, create=False).topics[0].error_code != 0


def test_the_brokers_own_topic_cannot_be_created_or_deleted(wire: WireClient) -> None:
    own = CODES["INVALID_TOPIC_EXCEPTION"]
    assert create(wire, "__consumer_offsets").error_code == own
    request = DeleteTopicsRequest(topic_names=["__consumer_offsets", "nowhere"])
    codes = [topic.error_code for topic in wire.ask(request, 3).responses]
    assert codes == [own, CODES["UNKNOWN_TOPIC_OR_PARTITION"]]


def test_ten_thousand_partitions_in_one_request_are_the_most(wire: WireClient) -> None:
    names = [fresh(), fresh()]
    topics = [
        CreateTopicsRequestTopic(name=name, num_partitions=6000, replication_factor=1)
        for name in names
    ]
    answer = wire.ask(CreateTopicsRequest(topics=topics), 7)
    assert [t.error_code for t in answer.topics] == [CODES["POLICY_VIOLATION"]] * 2
    assert all(t.error_code for t in ask(wire, *names, create=False).topics)


def test_a_config_named_twice_is_refused(wire: WireClient) -> None:
    twice = [CreateTopicsRequestConfig(name="retention.ms", value="1")] * 2
    topic = CreateTopicsRequestTopic(
        name=fresh(), num_partitions=1, replication_factor=1, configs=twice
    )
    answer = wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0]
    assert answer.error_code == CODES["INVALID_REQUEST"]


def test_names_that_differ_in_dots_and_underscores_only_collide(wire: WireClient) -> None:
    """What watches a cluster often writes ``_`` for both, and would take two topics for one."""
    name, refused = fresh(), CODES["INVALID_TOPIC_EXCEPTION"]
    assert create(wire, f"{name}.a.b").error_code == 0
    assert create(wire, f"{name}.a.b").error_code == CODES["TOPIC_ALREADY_EXISTS"]
    collided = create(wire, f"{name}_a.b")
    assert collided.error_code == refused
    assert f"{name}.a.b" in (collided.error_message or "")
    assert create(wire, f"{name}_a_b", validate_only=True).error_code == refused
    assert ask(wire, f"{name}_a_b").topics[0].error_code == refused  # auto-creation
    assert create(wire, f"{name}-a-b").error_code == 0
    both = [
        CreateTopicsRequestTopic(name=f"{name}{dot}c", num_partitions=1, replication_factor=1)
        for dot in "._"
    ]
    answer = wire.ask(CreateTopicsRequest(topics=both), 7).topics
    assert [topic.error_code for topic in answer] == [0, refused]
    wire.ask(DeleteTopicsRequest(topic_names=[f"{name}.a.b"], timeout_ms=10_000), 3)
    assert create(wire, f"{name}_a_b").error_code == 0


def test_the_name_of_the_brokers_own_topic_is_kept_free(tmp_path: Path) -> None:
    """A topic that collides with it, created before any group came, would have kept all groups
    from ever committing an offset."""
    with BrokerThread(tmp_path) as broker, WireClient(broker.bootstrap_servers) as wire:
        assert create(wire, "__consumer.offsets").error_code == CODES["INVALID_TOPIC_EXCEPTION"]
        refused = ask(wire, "..consumer.offsets").topics[0]
        assert refused.error_code == CODES["INVALID_TOPIC_EXCEPTION"]
        assert wire.ask(FindCoordinatorRequest(key="g"), 0).error_code == 0


def test_a_refused_name_is_refused_with_its_own_reason(tmp_path: Path) -> None:
    """``t_x`` "collides with the topic t.x: the topic name is not valid: 1 to 249 of a-z A-Z 0-9
    . _ -", which it is."""
    with (
        BrokerThread(tmp_path) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topic("t.x")
        with pytest.raises(KafkaError, match=r"collides with the topic t\.x") as collides:
            admin.create_topic("t_x")
        with pytest.raises(KafkaError, match="is not 1 to 249 of a-z A-Z 0-9") as no_name:
            admin.create_topic("t x")
    assert str(collides.value) == (
        "topic t_x: t_x collides with the topic t.x: for metrics . and _ are the same: "
        "INVALID_TOPIC_EXCEPTION: a topic cannot have this name"
    )
    assert str(no_name.value).count("t x") == 2


def test_topics_that_collide_are_created_at_once_only_one_of_them() -> None:
    """Both creations had looked before either was done."""

    async def scenario() -> list[object]:
        files = MemoryFiles()
        files.make_dirs("/d")
        cluster = LocalCluster(files, "/d")
        await cluster.cluster_id()
        me = BrokerImage(0, {"PLAINTEXT": Endpoint("h", 1)})
        await cluster.join(me, lambda image: asyncio.sleep(0))
        both = (cluster.create_topic(name, 1, {}) for name in ("a.b", "a_b"))
        return await asyncio.gather(*both, return_exceptions=True)

    done, refused = asyncio.run(scenario())
    assert done is None
    assert isinstance(refused, KafkaError)
    assert refused.code == CODES["INVALID_TOPIC_EXCEPTION"]


def test_topics_that_are_deleted_together_change_the_picture_once() -> None:
    """100 topics in one request were written, published and synced 100 times."""
    pictures: list[set[str]] = []

    async def scenario() -> Mapping[str, KafkaError]:
        files = MemoryFiles()
        files.make_dirs("/d")
        cluster = LocalCluster(files, "/d")
        await cluster.cluster_id()

        async def on_change(image: MetadataImage) -> None:
            pictures.append(set(image.topics))

        await cluster.join(BrokerImage(0, {"PLAINTEXT": Endpoint("h", 1)}), on_change)
        for number in range(5):
            await cluster.create_topic(f"t{number}", 1, {})
        pictures.clear()
        return await cluster.delete_topics(["t1", "none", "t3"])

    failed = asyncio.run(scenario())
    assert pictures == [{"t0", "t2", "t4"}]
    assert {name: error.name for name, error in failed.items()} == {
        "none": "UNKNOWN_TOPIC_OR_PARTITION"
    }


def test_of_many_topics_in_one_request_each_is_answered(wire: WireClient) -> None:
    names = [fresh(), fresh(), fresh()]
    for name in names:
        assert create(wire, name, 2).error_code == 0
    asked = [names[0], "never-was", names[1], "__consumer_offsets", names[2]]
    answers = wire.ask(DeleteTopicsRequest(topic_names=asked, timeout_ms=10_000), 5).responses
    assert [answer.name for answer in answers] == asked
    codes = [CODES[name] for name in ("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_TOPIC_EXCEPTION")]
    assert [answer.error_code for answer in answers] == [0, codes[0], 0, codes[1], 0]
    assert all(answer.error_message for answer in answers if answer.error_code)
    assert all(ask(wire, name, create=False).topics[0].error_code for name in names)


def test_a_timeout_of_zero_sets_it_off_and_does_not_wait(wire: WireClient) -> None:
    """librdkafka asks so for a creation that it does not wait for, and takes REQUEST_TIMED_OUT for
    success."""
    name = fresh()
    assert create(wire, name, timeout_ms=0).error_code == CODES["REQUEST_TIMED_OUT"]
    eventually(lambda: not ask(wire, name, create=False).topics[0].error_code, what="it is there")
    gone = wire.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=-1), 5).responses[0]
    assert gone.error_code == CODES["REQUEST_TIMED_OUT"]
    eventually(lambda: ask(wire, name, create=False).topics[0].error_code, what="it is gone")


def test_a_change_that_fails_after_its_asker_has_gone_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only who stopped waiting by its timeout left somebody behind to tell of it; who closed its
    connection left an exception that nobody ever looked at."""

    async def scenario() -> None:
        patience, gone = TimedChanges(), asyncio.Event()

        async def fails() -> None:
            await gone.wait()
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], "disk")

        asker = asyncio.create_task(patience.within(60_000, fails()))
        await asyncio.sleep(0.01)
        asker.cancel()
        await asyncio.gather(asker, return_exceptions=True)
        gone.set()
        await asyncio.sleep(0.01)
        await patience.stop()

    asyncio.run(scenario())
    assert "a change failed whose caller waits no longer" in caplog.text
    assert "never retrieved" not in caplog.text


def test_deletion_may_be_off(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, delete_topic_enable=False) as strict,
        WireClient(strict.bootstrap_servers) as wire,
    ):
        assert create(wire, "t").error_code == 0
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        assert wire.ask(request, 2).responses[0].error_code == CODES["INVALID_REQUEST"]
        assert wire.ask(request, 3).responses[0].error_code == CODES["TOPIC_DELETION_DISABLED"]
        assert ask(wire, "t", create=False).topics[0].error_code == 0


def test_a_topic_meant_twice_is_not_deleted(wire: WireClient) -> None:
    name = fresh()
    identity = create(wire, name).topic_id
    by_name = DeleteTopicsRequestTopic(name=name)
    by_id = DeleteTopicsRequestTopic(topic_id=identity)
    for pair in ([by_name, by_name], [by_name, by_id], [by_id, by_id]):
        answer = wire.ask(DeleteTopicsRequest(topics=pair, timeout_ms=5000), 6)
        assert [t.error_code for t in answer.responses] == [CODES["INVALID_REQUEST"]] * 2
    assert ask(wire, name, create=False).topics[0].error_code == 0


def test_a_topic_is_deleted_by_its_name_or_its_id_and_not_by_both_or_none(wire: WireClient) -> None:
    name = fresh()
    identity = create(wire, name).topic_id
    both = DeleteTopicsRequestTopic(name=name, topic_id=identity)
    none = DeleteTopicsRequestTopic()
    answer = wire.ask(DeleteTopicsRequest(topics=[both, none]), 6)
    assert [t.error_code for t in answer.responses] == [CODES["INVALID_REQUEST"]] * 2
    huge = wire.ask(DeleteTopicsRequest(topic_names=["x" * 30_000]), 5).responses[0]
    assert huge.error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert len(huge.error_message or "") < 500
