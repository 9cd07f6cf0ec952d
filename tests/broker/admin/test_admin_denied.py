"""Who is denied an operation is told so by the admin APIs, and nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from admin_wire import BROKER, SET, TOPIC, AllBut, change, config, create, describe, fresh

from tallymark.broker.security.authorizer import AllowAll
from tallymark.errors import CODES
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

NO_TOPIC = CODES["TOPIC_AUTHORIZATION_FAILED"]
NO_CLUSTER = CODES["CLUSTER_AUTHORIZATION_FAILED"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data")) as running:
        yield running


@contextmanager
def denied(
    broker: BrokerThread, *what: tuple[Operation, ResourceType, str | None]
) -> Iterator[None]:
    assert broker.broker is not None
    assert broker.broker.state is not None
    broker.broker.state.authorizer = AllBut(*what)
    try:
        yield
    finally:
        broker.broker.state.authorizer = AllowAll()


def exists(wire: WireClient, topic: str) -> bool:
    return describe(wire, TOPIC, topic, ["retention.ms"]).error_code == 0


def test_creating_is_allowed_on_the_cluster_or_by_the_topics_name(
    broker: BrokerThread, wire: WireClient
) -> None:
    topic, other = fresh(), fresh()
    cluster = (Operation.CREATE, ResourceType.CLUSTER, None)
    with denied(broker, cluster, (Operation.CREATE, ResourceType.TOPIC, topic)):
        assert create(wire, topic).error_code == NO_TOPIC
        assert create(wire, topic, validate_only=True).error_code == NO_TOPIC
        assert create(wire, other).error_code == 0
    assert not exists(wire, topic)
    with denied(broker, (Operation.CREATE, ResourceType.TOPIC, None)):
        assert create(wire, topic).error_code == 0


def test_what_a_topic_got_is_told_to_who_may_describe_configs(
    broker: BrokerThread, wire: WireClient
) -> None:
    with denied(broker, (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, None)):
        created = create(wire, fresh(), 3)
    assert (created.error_code, created.topic_config_error_code) == (0, NO_TOPIC)
    assert (created.num_partitions, created.replication_factor) == (-1, -1)
    assert list(created.configs or ()) == []


def test_deleting(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    identity = create(wire, topic).topic_id

    def delete(*topics: DeleteTopicsRequestTopic) -> list[tuple[int, str | None]]:
        request = DeleteTopicsRequest(topics=topics, timeout_ms=5000)
        return [(each.error_code, each.name) for each in wire.ask(request, 6).responses]

    by_id = DeleteTopicsRequestTopic(topic_id=identity)
    with denied(broker, (Operation.DELETE, ResourceType.TOPIC, None)):
        unknown = DeleteTopicsRequestTopic(name="nowhere")
        assert delete(unknown) == [(NO_TOPIC, "nowhere")], "whether it is there is not told"
        assert delete(by_id) == [(NO_TOPIC, topic)]
    with denied(broker, (Operation.DESCRIBE, ResourceType.TOPIC, topic)):
        assert delete(by_id) == [(NO_TOPIC, None)], "the name is not told"
    assert exists(wire, topic)


def test_growing_and_deleting_records(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    with denied(broker, (Operation.ALTER, ResourceType.TOPIC, topic)):
        asked = CreatePartitionsRequestTopic(name=topic, count=5)
        answer = wire.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=5000), 3)
        assert answer.results[0].error_code == NO_TOPIC
    with denied(broker, (Operation.DELETE, ResourceType.TOPIC, topic)):
        part = DeleteRecordsRequestPartition(partition_index=0, offset=-1)
        topics = [DeleteRecordsRequestTopic(name=topic, partitions=[part])]
        deleted = wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
        assert deleted.topics[0].partitions[0].error_code == NO_TOPIC


def test_configs(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    with denied(
        broker,
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, None),
    ):
        assert describe(wire, TOPIC, topic).error_code == NO_TOPIC
        assert list(describe(wire, TOPIC, topic).configs) == []
        assert describe(wire, BROKER, "0").error_code == NO_CLUSTER
    with denied(
        broker,
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC, topic),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER, None),
    ):
        setting = ("retention.ms", SET, "1")
        assert change(wire, topic, setting).error_code == NO_TOPIC
        assert change(wire, "0", ("num.partitions", SET, "1"), kind=BROKER).error_code == NO_CLUSTER
        resource = AlterConfigsRequestResource(resource_type=TOPIC, resource_name=topic, configs=[])
        replaced = wire.ask(AlterConfigsRequest(resources=[resource]), 2)
        assert replaced.responses[0].error_code == NO_TOPIC
    assert config(wire, topic, "retention.ms").value != "1"


def test_what_the_cluster_says_of_itself(broker: BrokerThread, wire: WireClient) -> None:
    with denied(broker, (Operation.DESCRIBE, ResourceType.CLUSTER, None)):
        for version in range(1, 5):
            answer = wire.ask(DescribeLogDirsRequest(), version)
            assert list(answer.results) == []
            if version >= 3:
                assert answer.error_code == NO_CLUSTER
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        cluster = wire.ask(asked, 1)
        assert (cluster.error_code, cluster.cluster_authorized_operations) == (0, 0)
        assert len(cluster.brokers) == 1
    with denied(broker, (Operation.ALTER, ResourceType.CLUSTER, None)):
        bits = wire.ask(asked, 1).cluster_authorized_operations
        assert not bits >> Operation.ALTER & 1
        assert bits >> Operation.CREATE & 1


def test_producers_are_shown_to_readers(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    with denied(broker, (Operation.READ, ResourceType.TOPIC, topic)):
        asked = DescribeProducersRequestTopic(name=topic, partition_indexes=[0])
        answer = wire.ask(DescribeProducersRequest(topics=[asked]), 0)
        assert answer.topics[0].partitions[0].error_code == NO_TOPIC
