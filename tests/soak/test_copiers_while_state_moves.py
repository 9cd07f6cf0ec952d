"""Two copiers while the coordinators' own logs, ``__transaction_state`` and ``__consumer_offsets``,
move from broker to broker, and brokers of the move are killed: the output is the input, in order,
once, and nothing hangs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from asked_cluster import wait_for
from copied_cluster import copied_cluster
from copy_story import COUNT, CopyStory
from replicated_cluster import ReplicatedCluster

from tallymark import Admin
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(1800)]
ROUNDS = 6
STATE = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
TWO_REPLICAS: dict[str, Any] = {
    "transaction_state_log_replication_factor": 2,
    "offsets_topic_replication_factor": 2,
}
"""Of three brokers: one has no copy, and gets one."""


def begin_moves(cluster: ReplicatedCluster) -> dict[TopicPartition, list[int]]:
    """Each of the topics leaves its leader for the broker that has no replica of it. Returns where
    its replicas will be."""
    targets: dict[TopicPartition, list[int]] = {}
    for topic in STATE:
        cluster.wait_until_whole(topic)
        now, leader = list(cluster.partition(topic).replica_nodes), cluster.leader(topic)
        (free,) = set(cluster.brokers) - set(now)
        targets[topic, 0] = [free if one == leader else one for one in now]
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        admin.move_partitions(targets).check()
    return targets


def has_ended(cluster: ReplicatedCluster) -> bool:
    try:
        with Admin(bootstrap_servers=cluster.addresses) as admin:
            return not admin.moving_partitions()
    except TallymarkError:  # the controller has just been killed
        return False


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("kills", [False, True])
def test_the_coordinators_logs_move_while_copiers_are_at_work(
    tmp_path: Path, kills: bool, protocol: int
) -> None:
    chance = random.Random(protocol)
    with (
        copied_cluster(tmp_path, protocol, **TWO_REPLICAS) as cluster,
        CopyStory(tmp_path, cluster.addresses, COUNT, protocol=protocol) as story,
    ):
        for number in range(ROUNDS):
            story.until((number + 1) / (ROUNDS + 1))
            targets = begin_moves(cluster)
            if kills:
                victim = cluster.brokers[chance.choice(list(cluster.brokers))]
                victim.kill()
                victim.start()
            wait_for(lambda: has_ended(cluster), "the end of the moves", 180)
            for (topic, _), replicas in targets.items():
                found = cluster.partition(topic).replica_nodes
                assert sorted(found) == sorted(replicas), (topic, found, replicas)
        story.finish()
