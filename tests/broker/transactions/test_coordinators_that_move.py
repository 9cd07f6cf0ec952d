"""The logs of both coordinators move to another broker while transactions are open: each is ended
as its producer asked. The short twin of ``soak/test_copiers_while_state_moves.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

pytestmark = pytest.mark.process
STATE: Final = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    """Three brokers, of which two have each of the logs."""
    with BrokersInMemory(
        tmp_path,
        transaction_state_log_num_partitions=1,
        transaction_state_log_replication_factor=2,
        offsets_topic_num_partitions=1,
        offsets_topic_replication_factor=2,
    ) as brokers:
        brokers.create("t")
        yield brokers


def begin_moves(cluster: BrokersInMemory) -> dict[str, int]:
    """Both logs leave their leader for the broker that has no copy; returns who led them."""
    leaders = {topic: cluster.leader(topic) for topic in STATE}
    targets: dict[TopicPartition, list[int]] = {}
    for topic, leader in leaders.items():
        now = cluster.topic(topic).assignment[0]
        (free,) = set(cluster.brokers) - set(now)
        targets[topic, 0] = [free if one == leader else one for one in now]
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        admin.move_partitions(targets).check()
    return leaders


def end_of_moves(cluster: BrokersInMemory, leaders: dict[str, int]) -> None:
    """Until none of these brokers has a copy of what it led."""
    eventually(
        lambda: all(
            leader not in cluster.topic(one).assignment[0] for one, leader in leaders.items()
        )
    )


def committed_values(cluster: BrokersInMemory) -> list[bytes]:
    """What a reader of committed records sees."""
    with SimpleConsumer(
        bootstrap_servers=cluster.any_address, isolation="read_committed"
    ) as consumer:
        return [bytes(one.value or b"") for one in consumer.fetch("t", 0, 0).records()]


def test_what_is_open_while_the_coordinators_move_is_ended_as_asked(
    cluster: BrokersInMemory,
) -> None:
    committed: list[bytes] = []
    with Producer(bootstrap_servers=cluster.any_address, transactional_id="id") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send("t", b"%d" % number, partition=0)
            producer.send_offsets_to_transaction({("t", 0): number}, "g")
            leaders = begin_moves(cluster)
            if number % 3 == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                committed.append(b"%d" % number)
            end_of_moves(cluster, leaders)
    eventually(lambda: committed_values(cluster) == committed)
    with Admin(bootstrap_servers=cluster.any_address) as admin:
        eventually(lambda: admin.group_offsets("g")["t", 0].offset == 5)
