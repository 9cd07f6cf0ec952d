"""Other people's clients, and ours, on three brokers: the leader of their partitions is killed and
comes back, then their groups' coordinator. What was acknowledged is read, once and in order, and
no stored position runs backwards."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from foreign_clients.failover import MUCH_MORE, OFFSETS, Story, findings, has_coordinator
from foreign_clients.flows.every import NAMES, flow, missing
from replicated_cluster import SESSION_MS, ReplicatedCluster, paused

from tallymark import Admin
from tallymark.client.admin.topic_admin import NewTopic

pytestmark = pytest.mark.process
BOTH: Final = {"min.insync.replicas": "2"}


def begin(cluster: ReplicatedCluster, folder: Path, without: str = "") -> Story:
    """Topics of all clients on one leader, which is not the coordinator of their groups."""
    present = [name for name in NAMES if name != without and not missing(name)]
    topics = {name: f"of-{name}" for name in present}
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        wait_for(partial(has_coordinator, admin), "a coordinator")
        cluster.wait_until_whole(OFFSETS)
        coordinator = cluster.leader(OFFSETS)
        others = [node for node in cluster.brokers if node != coordinator]
        place = {0: (*others, coordinator)}
        new = [NewTopic(topic, configs=BOTH, assignment=place) for topic in topics.values()]
        admin.create_topics(new).check()
    for topic in topics.values():
        cluster.wait_until_whole(topic)
    return Story(
        cluster.addresses, [flow(n, cluster.addresses, topics[n], folder) for n in present]
    )


def topic_of(story: Story) -> str:
    """One for all: they have one leader."""
    return next(iter(story.flows.values())).journal.topic


def are_whole(cluster: ReplicatedCluster, story: Story) -> None:
    for one in story.flows.values():
        cluster.wait_until_whole(one.journal.topic)
    cluster.wait_until_whole(OFFSETS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    folder = tmp_path_factory.mktemp("failover")
    with (
        zookeeper_or_skip(folder) as server,
        ReplicatedCluster(folder, server, offsets_topic_num_partitions=1) as brokers,
    ):
        yield brokers


@pytest.fixture(scope="module")
def story(cluster: ReplicatedCluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    told = begin(cluster, tmp_path_factory.mktemp("clients"))
    with told.told():
        told.all_go_on("the start")
        for topic in (topic_of(told), OFFSETS):
            killed = cluster.brokers[cluster.leader(topic)]
            killed.kill()
            told.all_go_on(f"kill -9 of the leader of {topic}")
            killed.start()
            are_whole(cluster, told)
        told.all_go_on("all brokers are back")
    return told


@pytest.mark.parametrize("name", NAMES)
def test_a_client_goes_on_when_leader_and_coordinator_are_killed(story: Story, name: str) -> None:
    if why := missing(name):
        pytest.skip(why)
    assert findings(story, name) == []
    assert len(story.flows[name].journal.acked) > 40


FAULTS: Final = ("kill", "bounce", "stop", "pause")
VICTIMS: Final = ("leader", "coordinator", "both", "follower")


def harm(cluster: ReplicatedCluster, story: Story, fault: str, which: str) -> None:
    """One fault of one or two brokers, and all of them are back."""
    leader, coordinator = cluster.leader(topic_of(story)), cluster.leader(OFFSETS)
    follower = next(node for node in cluster.brokers if node not in (leader, coordinator))
    victims = {"leader": {leader}, "coordinator": {coordinator}, "follower": {follower}}
    harmed = [cluster.brokers[node] for node in victims.get(which, {leader, coordinator})]
    after = f"{fault} of {which}"
    if fault == "pause":
        with contextlib.ExitStack() as stack:
            for broker in harmed:
                stack.enter_context(paused(broker))
            if len(harmed) == 1:
                story.all_go_on(after)
            else:
                time.sleep(2 * SESSION_MS / 1000)  # with one broker of three nothing goes on
    else:
        for broker in harmed:
            broker.stop() if fault == "stop" else broker.kill()
        if len(harmed) == 1 and fault != "bounce":
            story.all_go_on(after)
        for broker in harmed:
            broker.start()
    are_whole(cluster, story)
    story.all_go_on(f"{after}, all are back", MUCH_MORE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_clients_live_through_many_faults(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    faults = [(rng.choice(FAULTS), rng.choice(VICTIMS)) for _ in range(12)]
    with (
        zookeeper_or_skip(tmp_path) as server,
        ReplicatedCluster(tmp_path, server, offsets_topic_num_partitions=1) as cluster,
    ):
        story = begin(cluster, tmp_path, without="kcat")  # it ends when no broker is there
        with story.told():
            story.all_go_on("the start")
            for fault, which in faults:
                harm(cluster, story, fault, which)
        for one in story.flows.values():
            print(one.journal.name, one.journal.sent, len(one.journal.acked), faults)
        assert findings(story) == []
