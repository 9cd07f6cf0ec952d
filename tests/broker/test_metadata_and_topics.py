"""Metadata, CreateTopics, DeleteTopics over a real socket, in every version served."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.errors import CODES
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), num_partitions=2) as running:
        yield running


@pytest.fixture
def wire(broker: BrokerThread) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


def fresh() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


def ask(wire: WireClient, *names: str, version: int = 12, create: bool = True) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)


def create(
    wire: WireClient,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    version: int = 7,
    configs: dict[str, str | None] | None = None,
    **rest: bool,
) -> CreateTopicsResponseTopic:
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequestConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    return wire.ask(CreateTopicsRequest(topics=[topic], **rest), version).topics[0]


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
        assert [(c.name, c.value) for c in created.configs or ()] == [("retention.ms", "5000")]
    assert create(wire, name, 3, version=version).error_code == CODES["TOPIC_ALREADY_EXISTS"]
    by_name = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
    assert wire.ask(by_name, min(version, 5)).responses[0].error_code == 0
    gone = ask(wire, name, create=False).topics[0]
    assert gone.error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_created_again_topic_has_another_id_and_no_records(wire: WireClient) -> None:
    name = fresh()
    first = create(wire, name).topic_id
    by_id = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(topic_id=first)])
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
        ({"replicas": 3}, "INVALID_REPLICATION_FACTOR"),
        ({"configs": {"retention.ms": "x"}}, "INVALID_CONFIG"),
        ({"configs": {"retention.ms": None}}, "INVALID_CONFIG"),
        ({"configs": {"nonsense": "1"}}, "INVALID_CONFIG"),
    ],
)
def test_impossible_topics_are_refused(
    wire: WireClient, change: dict[str, object], name: str
) -> None:
    answer = create(wire, fresh(), **change)  # type: ignore[arg-type] # a table of wrong values
    assert answer.error_code == CODES[name]
    assert answer.error_message


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
