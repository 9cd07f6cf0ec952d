"""Three brokers as processes that are killed, stopped and paused under load: what was acknowledged
with acks=all is read, in order, once. (Apache Kafka's replication_test.)"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from cluster_members import zookeeper_or_skip
from produce_consume_validate import ConfluentWriter, TallymarkWriter, Writer, validate
from replicated_cluster import ReplicatedCluster, paused, wait_for

from tallymark.coordination import ControllerElection, ZooKeeper

pytestmark = pytest.mark.process

FAULTS = ("kill", "stop", "pause", "bounce")
VICTIMS = ("leader", "follower", "controller")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with zookeeper_or_skip(tmp_path) as server, ReplicatedCluster(tmp_path, server) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def controller(cluster: ReplicatedCluster) -> int:
    with ZooKeeper(cluster.connect) as zookeeper:
        found = ControllerElection(zookeeper, -1, lambda: 0).current()
    return cluster.leader("t") if found is None else found.broker_id


def victim(cluster: ReplicatedCluster, which: str) -> BrokerProcess:
    node_id = cluster.leader("t")
    if which == "follower":
        node_id = cluster.followers("t")[0]
    elif which == "controller":
        node_id = controller(cluster)
    return cluster.brokers[node_id]


def progress(writers: list[Writer], count: int = 300) -> None:
    """Until each of the writers was acknowledged so many more."""
    targets = [(writer, len(writer.acked) + count) for writer in writers]
    wait_for(lambda: all(len(one.acked) >= target for one, target in targets), "acknowledgements")


def harm(cluster: ReplicatedCluster, fault: str, which: str, writers: list[Writer]) -> None:
    broker = victim(cluster, which)
    if fault == "pause":
        with paused(broker):
            progress(writers)
        return
    broker.kill() if fault in ("kill", "bounce") else broker.stop()
    if fault != "bounce":
        progress(writers)
    broker.start(60)


def run(cluster: ReplicatedCluster, harms: list[tuple[str, str]]) -> None:
    writers: list[Writer] = [
        ConfluentWriter("confluent", cluster.addresses, "t", keys=0, pause=0.015),
        TallymarkWriter("tallymark", cluster.addresses, "t", keys=0, pause=0.015),
    ]
    for writer in writers:
        writer.start()
    for fault, which in harms:
        progress(writers)
        harm(cluster, fault, which, writers)
        cluster.wait_until_whole("t")
    progress(writers)
    for writer in writers:
        writer.finish()
    outcome = validate(cluster.addresses, "t", writers, *cluster.data)
    print(harms, outcome)
    assert outcome.problems == [], str(outcome)
    for broker in cluster.brokers.values():
        text = broker.log.read_text(errors="replace")
        assert "Traceback" not in text, text[max(text.find("Traceback") - 500, 0) :][:3000]


def test_a_leader_is_killed_and_one_is_paused(cluster: ReplicatedCluster) -> None:
    run(cluster, [("kill", "leader"), ("pause", "leader")])


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("which", VICTIMS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_every_broker(cluster: ReplicatedCluster, fault: str, which: str) -> None:
    run(cluster, [(fault, which)] * 3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twenty_faults(cluster: ReplicatedCluster, seed: int) -> None:
    rng = random.Random(seed)
    run(cluster, [(rng.choice(FAULTS), rng.choice(VICTIMS)) for _ in range(20)])
