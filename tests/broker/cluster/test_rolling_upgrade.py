"""A cluster is upgraded and gets replicas as docs/operations.md says, and its clients notice
nothing: brokers are replaced one after the other, the level of features is raised, topics get
replicas by a plan of moves, and then the death of a broker is none of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from asked_cluster import wait_for
from cluster_members import zookeeper_or_skip
from commands import run_command
from foreign_clients.failover import OFFSETS, Story, findings, has_coordinator
from foreign_clients.flows.every import flow
from release_before import release_before
from replicated_cluster import ReplicatedCluster

from tallymark.cli.admin.features import command as features
from tallymark.cli.admin.reassign import command as reassign
from tallymark.cli.admin.topics import command as topics
from tallymark.client import Admin
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import KafkaError

pytestmark = [pytest.mark.process, pytest.mark.soak, pytest.mark.timeout(900)]
CLIENTS: Final = {1: "tallymark", 2: "librdkafka", 3: "aiokafka"}
"""Which client sends to the broker."""


@contextmanager
def cluster_of(folder: Path, code: Path | None) -> Iterator[ReplicatedCluster]:
    with (
        zookeeper_or_skip(folder) as server,
        ReplicatedCluster(
            folder, server, level=0, code=code, offsets_topic_num_partitions=1
        ) as cluster,
    ):
        yield cluster


def begin(cluster: ReplicatedCluster, folder: Path) -> Story:
    """A topic on each broker, with one replica, and a client that sends to it and reads it."""
    with Admin(bootstrap_servers=cluster.addresses) as admin:
        wait_for(partial(has_coordinator, admin), "a coordinator")
        new = [NewTopic(f"on-{node}", assignment={0: (node,)}) for node in CLIENTS]
        admin.create_topics(new).check()
    flows = [flow(one, cluster.addresses, f"on-{n}", folder) for n, one in CLIENTS.items()]
    return Story(cluster.addresses, flows)


def replace_each_broker(cluster: ReplicatedCluster, story: Story) -> None:
    """Rolling: one after the other is stopped, and started with the code of this project."""
    for node, broker in cluster.brokers.items():
        broker.stop()
        broker.code = None
        broker.start()
        story.all_go_on(f"broker {node} was replaced")


def give_replicas(cluster: ReplicatedCluster, folder: Path) -> None:
    """The commands of the guide."""
    at = ("--bootstrap-server", cluster.addresses)
    run_command(features, "upgrade", "replication.version=1", *at)
    planned = run_command(reassign, "plan", "--replicas", "3", *at).stdout
    (folder / "moves.json").write_text(planned)
    run_command(reassign, "apply", str(folder / "moves.json"), "--yes", *at)
    for name in (OFFSETS, *(f"on-{node}" for node in CLIENTS)):
        wait_for(partial(has_three, cluster, name), f"three replicas of {name}")
        if name != OFFSETS:
            run_command(topics, "config", name, "--set", "min.insync.replicas=2", *at)


def has_three(cluster: ReplicatedCluster, topic: str) -> bool:
    found = cluster.partition(topic)
    return len(found.replica_nodes) == 3 and set(found.isr_nodes) == {1, 2, 3}


def run(folder: Path, code: Path | None) -> None:
    with cluster_of(folder, code) as cluster:
        story = begin(cluster, folder)
        with story.told():
            story.all_go_on("the start")
            with pytest.raises(KafkaError, match="replication"):
                cluster.create("too-early", 3)
            replace_each_broker(cluster, story)
            give_replicas(cluster, folder)
            story.all_go_on("there are replicas")
            killed = cluster.brokers[cluster.leader(OFFSETS)]
            killed.kill()
            story.all_go_on("kill -9 of the coordinator")
            killed.start()
        assert findings(story) == []


def test_a_cluster_without_replicas_gets_them_while_clients_are_at_work(tmp_path: Path) -> None:
    run(tmp_path, None)


def test_brokers_of_the_release_before_are_replaced_one_after_the_other(tmp_path: Path) -> None:
    code = tmp_path / "before"
    if why := release_before(code):
        pytest.skip(f"the release before cannot be had: {why}")
    run(tmp_path, code)
