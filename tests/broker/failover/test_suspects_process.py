"""Three brokers as processes whose sessions last a minute: who is killed is replaced long before.

No time is asserted: that the killed broker still is registered when another one leads says that no
session has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from replicated_cluster import ReplicatedCluster, paused

from tallymark import Producer
from tallymark.coordination import BrokerRegistry, ControllerElection, TopicWriter, ZooKeeper
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.replicas.writing import ReplicaWriter
from tallymark.coordination.topics.registry import TopicRegistry
from tallymark.replication.isr_notices import IsrNotices
from tallymark.replication.model import ChangeState, PartitionState

pytestmark = pytest.mark.process

SESSION_MS = 60_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with (
        zookeeper_or_skip(tmp_path) as server,
        ReplicatedCluster(tmp_path, server, zookeeper_session_timeout_ms=SESSION_MS) as brokers,
    ):
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def state_of(zookeeper: ZooKeeper) -> PartitionState:
    return TopicRegistry(zookeeper).readable_states([("t", 0)])[0]["t", 0]


def controller(zookeeper: ZooKeeper) -> int:
    found = ControllerElection(zookeeper, -1, lambda: 0).current()
    return -1 if found is None else found.broker_id


def move_lead(zookeeper: ZooKeeper, broker: int) -> None:
    """As an operator does it, by compare-and-set."""
    state = state_of(zookeeper)
    if state.leader == broker:
        return
    moved = replace(state, leader=broker, leader_epoch=state.leader_epoch + 1)
    guard = TopicWriter(zookeeper).guard()
    change = ChangeState(("t", 0), state.version, moved, "a test moves the lead")
    ReplicaWriter(zookeeper, IsrNotices(every_ms=0)).write([change], [guard], 0)
    wait_for(lambda: state_of(zookeeper).leader == broker, "the lead has moved")


@pytest.mark.parametrize("victim", ["leader and controller", "follower"])
def test_a_process_that_is_gone_is_replaced_before_its_session_ends(
    cluster: ReplicatedCluster, victim: str
) -> None:
    """A follower that is gone holds up acks=all as a leader does, until it is out of the ISR."""
    with (
        ZooKeeper(cluster.connect) as zookeeper,
        Producer(bootstrap_servers=cluster.addresses, acks="all", audit=False) as producer,
    ):
        office = controller(zookeeper)
        move_lead(zookeeper, office)
        dead = office if victim == "leader and controller" else cluster.followers("t")[0]
        producer.send("t", b"before").result(50)
        cluster.brokers[dead].kill()
        wait_for(lambda: dead not in state_of(zookeeper).isr, "an ISR without it", 50)
        producer.send("t", b"after").result(50)
        assert state_of(zookeeper).leader not in (dead, -1)
        assert controller(zookeeper) != dead
        assert dead in BrokerRegistry(zookeeper).brokers(), "its session has not ended"


def test_a_process_that_stands_still_is_not_suspected(cluster: ReplicatedCluster) -> None:
    """SIGSTOP: its machine takes connections in its name, so nothing is known of it. What others
    report of it does not count either."""
    with ZooKeeper(cluster.connect) as zookeeper:
        leader = cluster.leader("t")
        registered = BrokerRegistry(zookeeper).brokers()[leader]
        notes, before = BrokerNotes(zookeeper), state_of(zookeeper)
        with paused(cluster.brokers[leader]):
            notes.suspect(leader, registered.epoch, 9)
            if controller(zookeeper) != leader:
                wait_for(lambda: not notes.suspects(), "the note to be removed")
        wait_for(lambda: not notes.suspects(), "the note to be removed")
        assert state_of(zookeeper).leader_epoch == before.leader_epoch
