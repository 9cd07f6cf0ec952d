"""Replicas and racks, and replicas that an administrator chooses, on brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory

from tallymark import Admin
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import KafkaError
from tallymark.testing.broker_thread import BrokerThread


class TwoRacks(BrokersInMemory):
    """Brokers 1 and 3 are in rack b, 2 and 4 in rack a."""

    def broker(self, node_id: int) -> BrokerThread:
        self._settings = {"broker_rack": "ab"[node_id % 2]}
        return super().broker(node_id)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersInMemory]:
    folder: Path = tmp_path_factory.mktemp("racks")
    with TwoRacks(folder, 4) as brokers:
        brokers.create("first", 2)
        yield brokers


@pytest.fixture
def admin(cluster: BrokersInMemory) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.any_address) as found:
        yield found


def replicas(cluster: BrokersInMemory, topic: str) -> list[tuple[int, ...]]:
    found = cluster.topic(topic)
    return [found.of(index).replicas for index in sorted(found.assignment)]


def test_replicas_are_in_different_racks_also_of_partitions_that_are_added(
    cluster: BrokersInMemory, admin: Admin
) -> None:
    assert admin.create_topic("spread", 8, replication_factor=2)
    admin.create_partitions({"spread": 16}).check()
    placed = replicas(cluster, "spread")
    assert len(placed) == 16
    for one, other in placed:
        assert one % 2 != other % 2, placed
    assert {one[0] for one in placed} == {1, 2, 3, 4}, "leaders go round"


def test_an_administrator_chooses_also_against_the_racks(
    cluster: BrokersInMemory, admin: Admin
) -> None:
    made = NewTopic("chosen", assignment={0: [1, 3], 1: [2, 4]})
    admin.create_topics([made]).check()
    admin.create_partitions({"chosen": 3}, assignments={"chosen": [[3, 1]]}).check()
    assert replicas(cluster, "chosen") == [(1, 3), (2, 4), (3, 1)]


@pytest.mark.parametrize(
    "wrong", [[[1, 1]], [[1]], [[1, 2, 3]], [[1, 9]], [[1, 2], [3, 4]], [[]], []]
)
def test_what_cannot_be_is_refused_and_nothing_is_added(
    cluster: BrokersInMemory, admin: Admin, wrong: list[list[int]]
) -> None:
    results = admin.create_partitions({"first": 2}, assignments={"first": wrong})
    error = results.errors["first"]
    assert isinstance(error, KafkaError)
    assert error.name == "INVALID_REPLICA_ASSIGNMENT"
    assert len(replicas(cluster, "first")) == 1
