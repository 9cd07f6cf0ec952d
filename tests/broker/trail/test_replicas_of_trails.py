"""The topics that trails make have several replicas where the cluster lets topics have them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark.broker.replicas.incidents import UNCLEAN_ELECTION, ReplicationIncident
from tallymark.broker.trail.trail import replicas_of_trail
from tallymark.client.admin.admin import Admin

TOPIC = "_tallymark_incidents"


def report(cluster: BrokersInMemory, broker: int) -> None:
    """An incident, as after an unclean election."""
    told = ReplicationIncident(
        1, UNCLEAN_ELECTION, broker, "t", 0, UUID(int=1), 3, 10, -1, 12, ((0, 0), (3, 10))
    )
    thread = cluster.brokers[broker]

    async def put() -> None:
        assert thread.broker is not None
        assert thread.broker._replicas is not None
        thread.broker._replicas.report(told)

    thread.call(put())


def factors(cluster: BrokersInMemory) -> list[int]:
    """How many replicas each partition of the topic has; none where it is not there."""
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        if TOPIC not in admin.topics():
            return []
        described = admin.describe_topics([TOPIC])[TOPIC]
    return [len(part.replicas) for part in described.partitions]


def all_know_all(cluster: BrokersInMemory) -> bool:
    return all(len(cluster.running(one).image.brokers) == 3 for one in cluster.brokers)


def test_incidents_are_on_several_brokers(tmp_path: Path) -> None:
    """On three brokers the topic of incidents had one replica, as ``default.replication.factor``
    says: that a broker had lost committed records was known on one disk."""
    with BrokersInMemory(tmp_path, on_disk=True) as cluster:
        eventually(lambda: all_know_all(cluster))
        report(cluster, 1)
        eventually(lambda: factors(cluster))
        assert factors(cluster) == [3, 3, 3]


def test_a_topic_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    with BrokersInMemory(tmp_path, on_disk=True) as cluster:
        cluster.create(TOPIC, replicas=1)
        leader = cluster.state(TOPIC).leader
        report(cluster, leader)
        eventually(lambda: len(cluster.content(leader, TOPIC)[0]) == 1)
        assert factors(cluster) == [1]


@pytest.mark.parametrize(("default", "wanted"), [(1, 2), (3, 2)])
def test_no_more_than_brokers_live(tmp_path: Path, default: int, wanted: int) -> None:
    """With a default of three replicas and one broker away the topic could not be made: the report
    waited until that broker was back."""
    with BrokersInMemory(tmp_path, 2, default_replication_factor=default) as cluster:
        eventually(lambda: len(cluster.running(1).image.brokers) == 2)
        assert replicas_of_trail(cluster.running(1)) == wanted
