"""Three brokers as processes that are killed, stopped and paused under load: what was acknowledged
with acks=all is read, in order, once. (Apache Kafka's replication_test.) A broker that comes back
with an empty disk has no vote until it has copied everything."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from asked_cluster import wait_for
from broker_process import BrokerProcess
from cluster_members import zookeeper_or_skip
from produce_consume_validate import ConfluentWriter, TallymarkWriter, Writer, validate
from replicated_cluster import SESSION_MS, ReplicatedCluster, paused

from tallymark.coordination import ControllerElection, ZooKeeper

pytestmark = pytest.mark.process

FAULTS = ("kill", "stop", "pause", "hard bounce", "clean bounce", "new disk", "new disk at once")
VICTIMS = ("leader", "follower", "controller", "all")
MATRIX = [
    (fault, which)
    for fault in FAULTS
    for which in VICTIMS
    if which != "all" or "new disk" not in fault  # nobody would have anything
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with zookeeper_or_skip(tmp_path) as server, ReplicatedCluster(tmp_path, server) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def controller(cluster: ReplicatedCluster) -> int:
    with ZooKeeper(cluster.connect) as zookeeper:
        found = ControllerElection(zookeeper, -1, lambda: 0).current()
    return cluster.leader("t") if found is None else found.broker_id


def victims(cluster: ReplicatedCluster, which: str) -> list[BrokerProcess]:
    if which == "all":
        return list(cluster.brokers.values())
    node_id = cluster.leader("t")
    if which == "follower":
        node_id = cluster.followers("t")[0]
    elif which == "controller":
        node_id = controller(cluster)
    return [cluster.brokers[node_id]]


def progress(writers: list[Writer], count: int) -> None:
    """Until each of the writers was acknowledged so many more."""
    targets = [(writer, len(writer.acked) + count) for writer in writers]
    wait_for(lambda: all(len(one.acked) >= target for one, target in targets), "acknowledgements")


def harm(
    cluster: ReplicatedCluster, fault: str, which: str, writers: list[Writer], count: int
) -> None:
    """One fault; at its end all brokers run. At once: before their sessions have ended, so that a
    broker may find itself a leader still."""
    brokers = victims(cluster, which)
    if fault == "pause":
        with contextlib.ExitStack() as stack:
            for broker in brokers:
                stack.enter_context(paused(broker))
            meanwhile(which, writers, count)
        return
    for broker in brokers:
        broker.stop() if fault in ("stop", "clean bounce") else broker.kill()
    if fault in ("kill", "stop", "new disk"):
        meanwhile(which, writers, count)
    for broker in brokers:
        if "new disk" in fault:
            shutil.rmtree(broker.data)
        broker.start()


def meanwhile(which: str, writers: list[Writer], count: int) -> None:
    """The others go on; where there are none, all sessions end."""
    if which == "all":
        time.sleep(2 * SESSION_MS / 1000)
    else:
        progress(writers, count)


def run(cluster: ReplicatedCluster, harms: list[tuple[str, str]], count: int = 300) -> None:
    """The faults, one after another; ``count`` messages of each writer before, within and after."""
    writers: list[Writer] = [
        ConfluentWriter("confluent", cluster.addresses, "t", keys=0, pause=0.015),
        TallymarkWriter("tallymark", cluster.addresses, "t", keys=0, pause=0.015),
    ]
    for writer in writers:
        writer.start()
    for fault, which in harms:
        progress(writers, count)
        harm(cluster, fault, which, writers, count)
        cluster.wait_until_whole("t")
    progress(writers, count)
    for writer in writers:
        writer.finish()
    outcome = validate(cluster.addresses, "t", writers, *cluster.data)
    print(harms, outcome)
    assert outcome.problems == [], str(outcome)
    for broker in cluster.brokers.values():
        text = broker.log.read_text(errors="replace")
        assert "Traceback" not in text, text[max(text.find("Traceback") - 500, 0) :][:3000]


def test_a_leader_is_killed_and_one_is_paused(cluster: ReplicatedCluster) -> None:
    run(cluster, [("kill", "leader"), ("pause", "leader")], count=100)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("fault", "which"), MATRIX)
def test_every_fault_of_every_broker(cluster: ReplicatedCluster, fault: str, which: str) -> None:
    run(cluster, [(fault, which)] * 3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twenty_faults(cluster: ReplicatedCluster, seed: int) -> None:
    rng = random.Random(seed)
    run(cluster, [rng.choice(MATRIX) for _ in range(20)])
