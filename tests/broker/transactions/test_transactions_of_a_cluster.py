"""A transaction over three brokers: the coordinator asks and marks partitions that others lead, and
the loss of one of them leaves nothing open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from cluster_members import zookeeper_or_skip
from confluent_kafka import Consumer, Producer, TopicPartition
from replicated_cluster import ReplicatedCluster

from tallymark import Admin
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC

pytestmark = [pytest.mark.process, pytest.mark.soak]
SECONDS: Final = 60
PARTITIONS: Final = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with (
        zookeeper_or_skip(folder) as server,
        ReplicatedCluster(folder, server, transaction_state_log_num_partitions=1) as running,
    ):
        yield running


def committed(servers: str, topic: str, count: int) -> set[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "r", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    found: set[bytes | None] = set()
    while len(found) < count:
        message = consumer.poll(SECONDS)
        assert message is not None, found
        assert message.error() is None
        found.add(message.value())
    consumer.close()
    return found


def test_it_ends_in_the_partitions_of_every_broker_also_after_one_was_killed(
    cluster: ReplicatedCluster,
) -> None:
    servers = cluster.addresses
    with Admin(bootstrap_servers=servers) as admin:
        nodes = list(cluster.brokers)
        place = {part: (*nodes[part:], *nodes[:part]) for part in range(PARTITIONS)}
        new = NewTopic("t", configs={"min.insync.replicas": "2"}, assignment=place)
        admin.create_topics([new]).check()
    cluster.wait_until_whole("t")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "id"})
    producer.init_transactions(SECONDS)
    sent: list[bytes] = []
    for number, commits in enumerate((True, False, True, True)):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, part) for part in range(PARTITIONS)]
        for part, value in enumerate(values):
            producer.produce("t", value, partition=part)
        producer.flush(SECONDS)
        if number == 2:
            cluster.brokers[cluster.leader(TRANSACTIONS_TOPIC)].kill()
        if commits:
            producer.commit_transaction(SECONDS)
            sent += values
        else:
            producer.abort_transaction(SECONDS)
    assert committed(servers, "t", len(sent)) == set(sent)
